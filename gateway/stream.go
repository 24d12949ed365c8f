package gateway

import (
	"net/http"

	"troupe/gateway/openai"
	"troupe/messages"
)

// whole answers when all choices are finished.
func (g *Gateway) whole(w http.ResponseWriter, r *http.Request, gen *generation, a asked) {
	all := newGather(gen)
	if err := g.run(r.Context(), gen, all.write); err != nil {
		g.fail(w, a, asError(err))
		return
	}
	gen.meter.finished(gen)
	g.write(w, a, http.StatusOK, answerOf(gen).AppendResponse(nil, all.whole(), gen.usage()))
}

// events writes server-sent events, each at once.
type events struct {
	w       http.ResponseWriter
	control *http.ResponseController
	begun   bool // the status is sent
	buf     []byte
}

const (
	eventBegin = "data: "
	eventEnd   = "\n\n"
)

// send sends what data appends as an event.
func (s *events) send(data func([]byte) []byte) error {
	if !s.begun {
		s.begun = true
		h := s.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no") // proxies are not to gather events
	}
	s.buf = append(data(append(s.buf[:0], eventBegin...)), eventEnd...)
	if _, err := s.w.Write(s.buf); err != nil {
		return openai.Refusal(messages.Reason_REASON_CANCELLED, "the client left")
	}
	return s.control.Flush()
}

// stream answers with an event per piece. An error after the first of them is one itself: the status is sent already.
func (g *Gateway) stream(w http.ResponseWriter, r *http.Request, gen *generation, a asked) {
	answer, to := answerOf(gen), &events{w: w, control: http.NewResponseController(w)}
	err := g.run(r.Context(), gen, func(p piece) error {
		return to.send(func(b []byte) []byte { return answer.AppendChunk(b, gen.choiceOf(p)) })
	})
	switch {
	case err != nil && !to.begun:
		g.fail(w, a, asError(err))
		return
	case err != nil:
		e := asError(err)
		g.answered(a, e.Status)
		_ = to.send(func(b []byte) []byte { return append(b, e.JSON()...) }) // the client may have left
		panic(http.ErrAbortHandler)                                          // the stream is not whole: say so by cutting it
	}
	gen.meter.finished(gen)
	g.answered(a, http.StatusOK)
	if gen.request.IncludeUsage {
		_ = to.send(func(b []byte) []byte { return answer.AppendUsageChunk(b, gen.usage()) }) // the client may have left
	}
	_ = to.send(func(b []byte) []byte { return append(b, "[DONE]"...) }) // the client may have left
}
