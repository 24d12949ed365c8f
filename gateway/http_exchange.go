package gateway

import (
	"net/http"

	"troupe/gateway/openai"
	"troupe/messages"
)

// serveCompletion serves a completion or a chat completion.
func (g *Gateway) serveCompletion(w http.ResponseWriter, r *http.Request, isChat bool) {
	info := newRequestInfo(r, "completions")
	if isChat {
		info.endpoint = "chat_completions"
	}
	x := &httpExchange{g: g, w: w, r: r, isChat: isChat}
	g.serve(r.Context(), g.newGeneration(info, x))
}

// httpExchange is an exchange over HTTP. The response is JSON or, if streamed, server-sent events.
type httpExchange struct {
	g       *Gateway
	w       http.ResponseWriter
	r       *http.Request
	isChat  bool
	limited bool                    // the rate limit headers include the reserved tokens
	encoder *openai.ResponseEncoder // of a stream
	events  *sseWriter              // nil: the response is not streamed
	all     *accumulator            // nil: the response is streamed
}

// admitted implements exchange.
func (x *httpExchange) admitted(gen *generation) {
	x.g.setWriteDeadline(x.w, gen.req.Timeout+2*deadlineGrace)
}

// submitted implements exchange.
func (x *httpExchange) submitted(gen *generation) {
	x.g.setRateLimitHeaders(x.w.Header(), gen.info.caller)
	if x.limited = true; gen.simulated {
		x.w.Header().Set(simulatedHeader, "true")
	}
	gen.memory.shrink(gen.memoryBytes())
	if gen.req.Stream {
		x.encoder = newResponseEncoder(gen)
		x.events = &sseWriter{w: x.w, control: http.NewResponseController(x.w)}
	} else {
		x.all = newAccumulator(gen)
	}
}

// write implements exchange.
func (x *httpExchange) write(gen *generation, d delta) error {
	if x.all != nil {
		return x.all.add(d)
	}
	return x.events.send(func(b []byte) []byte { return x.encoder.AppendChunk(b, gen.toChoice(d)) })
}

// finish implements exchange. Writes fail if the client has left.
func (x *httpExchange) finish(gen *generation) error {
	if x.all != nil {
		body := newResponseEncoder(gen).AppendResponse(nil, x.all.result(), gen.usage())
		writeJSONBody(x.w, http.StatusOK, body)
		return nil
	}
	if gen.req.IncludeUsage {
		_ = x.events.send(func(b []byte) []byte { return x.encoder.AppendUsageChunk(b, gen.usage()) })
	}
	_ = x.events.send(func(b []byte) []byte { return append(b, "[DONE]"...) })
	return nil
}

// fail implements exchange. Once the status was sent, an error is sent as an event and the response
// is aborted, which tells the client that it is incomplete.
func (x *httpExchange) fail(e *openai.Error) {
	if x.events != nil && x.events.started {
		_ = x.events.send(func(b []byte) []byte { return append(b, e.JSON()...) }) // fails if the client has left
		panic(http.ErrAbortHandler)
	}
	if !x.limited {
		x.g.setRateLimitHeaders(x.w.Header(), callerFrom(x.r.Context()))
	}
	writeError(x.w, e)
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
