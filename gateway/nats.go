package gateway

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go/micro"

	"troupe/gateway/openai"
)

// InferSubject is the subject of inference requests. It ends with the model's name, which may
// contain dots.
const InferSubject = inferPrefix + ">"

const inferPrefix = "troupe.v1.infer."

// Request is a request over NATS. Its reply subject has been checked.
type Request interface {
	Subject() string
	Reply() string
	Headers() micro.Headers
	Data() []byte
	// Account returns the NATS account of the client, or "" if it is not known.
	Account() string
	// Respond sends a response message. A request may have several. One with micro.ErrorHeader is
	// counted as an error.
	Respond(data []byte, opts ...micro.RespondOpt) error
}

// Infer serves a request over NATS. The data is the JSON of a completion or, with messages, of a
// chat completion. Plain text is a prompt and gets a plain-text response. The response is streamed,
// one message per chunk, unless the request has "stream": false. With "format": "text", a chunk is
// only its text. An empty message ends the response.
//
// Infer returns once the request has been admitted or refused, since the service handles one request
// at a time. A goroutine serves it.
func (g *Gateway) Infer(msg Request) {
	if msg.Reply() == "" {
		return // no reply subject
	}
	info := requestInfo{endpoint: "infer", caller: caller{account: msg.Account()}}
	accepted := make(chan struct{})
	x := &natsExchange{msg: msg, accept: sync.OnceFunc(func() { close(accepted) })}
	if _, ok := g.gate.enter(); !ok {
		e := drainingError()
		g.recordResponse(info, e.Status)
		x.fail(e)
		return
	}
	// NATS does not report when a client leaves.
	ctx := context.WithValue(context.Background(), callerKey{}, info.caller)
	g.cfg.Runtime.Go(func() {
		var failed error
		defer recoverPanic(g.cfg.Log, &failed) // of account and fail
		defer g.gate.leave()
		defer x.accept()
		g.serve(ctx, g.newGeneration(info, x))
	})
	<-accepted
}

// natsExchange is an exchange over NATS.
type natsExchange struct {
	msg     Request
	accept  func() // lets the service handle the next request
	text    bool   // the client wants plain text
	encoder *openai.ResponseEncoder
	all     *accumulator // nil: the response is streamed
}

// admitted implements exchange.
func (x *natsExchange) admitted(*generation) { x.accept() }

// submitted implements exchange.
func (x *natsExchange) submitted(gen *generation) {
	x.encoder = newResponseEncoder(gen)
	if !gen.req.Stream {
		x.all = newAccumulator(gen)
	}
}

// write implements exchange.
func (x *natsExchange) write(gen *generation, d delta) error {
	switch {
	case x.all != nil:
		return x.all.add(d)
	case x.text:
		return respondText(x.msg, d.text)
	}
	return x.msg.Respond(x.encoder.AppendChunk(nil, gen.toChoice(d)))
}

// finish implements exchange.
func (x *natsExchange) finish(gen *generation) (err error) {
	switch {
	case x.all != nil && x.text:
		err = respondText(x.msg, x.all.result()[0].Text)
	case x.all != nil:
		err = x.msg.Respond(x.encoder.AppendResponse(nil, x.all.result(), gen.usage()))
	case gen.req.IncludeUsage && !x.text:
		err = x.msg.Respond(x.encoder.AppendUsageChunk(nil, gen.usage()))
	}
	if err != nil {
		return fmt.Errorf("send the response: %w", err)
	}
	_ = x.msg.Respond(nil) // fails if the connection is closed
	return nil
}

// fail implements exchange. The service counts the error in its statistics.
func (x *natsExchange) fail(e *openai.Error) {
	_ = x.msg.Respond(inferError(e), micro.WithHeaders(errorHeaders(e))) // fails if the connection is closed
	_ = x.msg.Respond(nil)
}

// respondText sends text unless it is empty: an empty message would end the response.
func respondText(msg Request, text string) error {
	if text == "" {
		return nil
	}
	return msg.Respond([]byte(text))
}

// errorHeaders returns the headers of an error response.
func errorHeaders(e *openai.Error) micro.Headers {
	h := micro.Headers{micro.ErrorHeader: {oneLine(e.Message)}, micro.ErrorCodeHeader: {strconv.Itoa(e.Status)}}
	if after := retryAfter(e); after != "" {
		h["Retry-After"] = []string{after}
	}
	return h
}

// inferError returns the JSON of a messages.ErrorResponse.
func inferError(e *openai.Error) []byte {
	b := fmt.Appendf(nil, `{"reason":%q,"error":%s`, e.Reason, quoteJSON(e.Message))
	if e.Param != nil {
		b = fmt.Appendf(b, `,"param":%s`, quoteJSON(*e.Param))
	}
	return append(append(b, e.MemoryJSON()...), '}')
}

// oneLine replaces control characters by spaces, so that the text is a valid header value.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, text)
}
