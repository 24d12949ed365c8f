package gateway

import (
	"net/http"

	"troupe/gateway/openai"
	"troupe/messages"
)

// writeJSON responds once all choices have finished.
func (g *Gateway) writeJSON(w http.ResponseWriter, r *http.Request, gen *generation, info requestInfo) {
	all := newAccumulator(gen)
	if err := g.run(r.Context(), gen, all.add); err != nil {
		g.respondError(w, info, asError(err))
		return
	}
	gen.metrics.generationFinished(gen)
	g.respond(w, info, http.StatusOK, newResponseEncoder(gen).AppendResponse(nil, all.result(), gen.usage()))
}

// sseWriter writes server-sent events and flushes each one.
type sseWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	started bool // the status was sent
	buf     []byte
}

const (
	ssePrefix = "data: "
	sseSuffix = "\n\n"
)

// send writes one event. appendData appends its data.
func (s *sseWriter) send(appendData func([]byte) []byte) error {
	if !s.started {
		s.started = true
		h := s.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no") // disables buffering in proxies
	}
	s.buf = append(appendData(append(s.buf[:0], ssePrefix...)), sseSuffix...)
	_, err := s.w.Write(s.buf)
	if err == nil {
		err = s.control.Flush()
	}
	if err != nil {
		return openai.Refusal(messages.Reason_REASON_CANCELLED, "the client left")
	}
	return nil
}

// writeSSE responds with an event per delta. Once the status was sent, an error is sent as an event
// and the response is aborted.
func (g *Gateway) writeSSE(w http.ResponseWriter, r *http.Request, gen *generation, info requestInfo) {
	encoder, events := newResponseEncoder(gen), &sseWriter{w: w, control: http.NewResponseController(w)}
	err := g.run(r.Context(), gen, func(d delta) error {
		return events.send(func(b []byte) []byte { return encoder.AppendChunk(b, gen.toChoice(d)) })
	})
	switch {
	case err != nil && !events.started:
		g.respondError(w, info, asError(err))
		return
	case err != nil:
		e := asError(err)
		g.recordResponse(info, e.Status)
		// Writes fail if the client has left. Aborting tells the client that the response is
		// incomplete.
		_ = events.send(func(b []byte) []byte { return append(b, e.JSON()...) })
		panic(http.ErrAbortHandler)
	}
	gen.metrics.generationFinished(gen)
	g.recordResponse(info, http.StatusOK)
	// Writes fail if the client has left.
	if gen.request.IncludeUsage {
		_ = events.send(func(b []byte) []byte { return encoder.AppendUsageChunk(b, gen.usage()) })
	}
	_ = events.send(func(b []byte) []byte { return append(b, "[DONE]"...) })
}
