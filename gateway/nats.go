package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/nats-io/nats.go/micro"

	"troupe/gateway/openai"
)

// InferSubject is the subject of inference requests. It ends with the model's name, which may
// contain dots.
const InferSubject = inferPrefix + ">"

const inferPrefix = "troupe.v1.infer."

// textMaxTokens is the max_tokens of a plain-text request.
const textMaxTokens = 64

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
// Infer responds to invalid requests itself and serves the others in a goroutine, since the service
// handles one request at a time.
func (g *Gateway) Infer(r Request) {
	info := requestInfo{endpoint: "infer", caller: caller{account: r.Account()}}
	if r.Reply() == "" {
		return // no reply subject
	}
	if _, ok := g.gate.enter(); !ok {
		g.failInfer(r, info, drainingError())
		return
	}
	memory := g.reserveMemory()
	done := func() { memory.shrink(0); g.gate.leave() }
	// Count the message twice: as received, which is kept while the request runs, and decoded.
	if !memory.tryGrow(int64(2 * len(r.Data()))) {
		done()
		g.failInfer(r, info, bodyMemoryExhausted())
		return
	}
	req, text, err := g.readNATS(r)
	if err != nil {
		done()
		g.failInfer(r, info, asError(err))
		return
	}
	admitted, refused := g.admit(info.caller)
	if refused != nil {
		done()
		g.failInfer(r, info, refused)
		return
	}
	go func() {
		var failed error
		defer recoverPanic(g.cfg.Log, &failed) // of the response that reports an error
		defer done()
		defer admitted.release()
		if err := g.infer(r, req, text, &info, admitted); err != nil {
			g.failInfer(r, info, asError(err))
			return
		}
		g.recordResponse(info, http.StatusOK)
	}()
}

// readNATS reads a request and its headers.
func (g *Gateway) readNATS(r Request) (req *openai.Request, text bool, err error) {
	defer recoverPanic(g.cfg.Log, &err)
	if req, text, err = decodeNATS(strings.TrimPrefix(r.Subject(), inferPrefix), r.Data()); err != nil {
		return nil, false, err
	}
	return req, text, req.SetPriority(r.Headers().Get("X-Troupe-Priority"))
}

// decodeNATS decodes a request for a model. The model in the subject overrides that in the body.
// text reports whether the client wants plain text.
func decodeNATS(model string, data []byte) (req *openai.Request, text bool, err error) {
	if !utf8.Valid(data) {
		return nil, false, openai.Invalid("", "the request is not valid UTF-8")
	}
	fields := map[string]json.RawMessage{"stream": json.RawMessage("true")}
	if data = bytes.TrimSpace(data); !bytes.HasPrefix(data, []byte("{")) {
		fields["prompt"], fields["format"] = quoteJSON(string(data)), json.RawMessage(`"text"`)
		fields["max_tokens"] = strconv.AppendInt(nil, textMaxTokens, 10)
	} else if err := json.Unmarshal(data, &fields); err != nil {
		return nil, false, openai.Invalid("", "the request is not valid JSON: "+err.Error())
	}
	fields["model"] = quoteJSON(model)
	whole, err := json.Marshal(fields)
	if err != nil {
		return nil, false, openai.Invalid("", err.Error())
	}
	turns := fields["messages"]
	if req, err = openai.Decode(whole, len(turns) > 0 && string(turns) != "null"); err != nil {
		return nil, false, err
	}
	switch format := string(fields["format"]); format {
	case "", "null", `"json"`:
		return req, false, nil
	case `"text"`:
		if n := max(1, len(req.Prompts)) * req.N; n > 1 {
			return nil, false, openai.Invalid("format",
				fmt.Sprintf("format text supports one choice, and the request has %d; use format json", n))
		}
		return req, true, nil
	default:
		return nil, false, openai.Invalid("format", fmt.Sprintf("format %s is unknown; use json or text", format))
	}
}

func (g *Gateway) infer(
	r Request, req *openai.Request, text bool, info *requestInfo, admitted *admission,
) (err error) {
	defer recoverPanic(g.cfg.Log, &err)
	// NATS does not report when a client leaves.
	ctx := context.WithValue(context.Background(), callerKey{}, info.caller)
	gen, err := g.prepare(ctx, req, info)
	if err == nil {
		err = admitted.reserve(gen)
	}
	if err != nil {
		return err
	}
	encoder, all := newResponseEncoder(gen), newAccumulator(gen)
	write := all.add
	switch {
	case req.Stream && text:
		write = func(d delta) error { return respondText(r, d.text) }
	case req.Stream:
		write = func(d delta) error { return r.Respond(encoder.AppendChunk(nil, gen.toChoice(d))) }
	}
	if err := g.run(ctx, gen, write); err != nil {
		return err
	}
	gen.metrics.generationFinished(gen)
	switch {
	case !req.Stream && text:
		err = respondText(r, all.result()[0].Text)
	case !req.Stream:
		err = r.Respond(encoder.AppendResponse(nil, all.result(), gen.usage()))
	case req.IncludeUsage && !text:
		err = r.Respond(encoder.AppendUsageChunk(nil, gen.usage()))
	}
	if err != nil {
		return fmt.Errorf("send the response: %w", err)
	}
	_ = r.Respond(nil) // fails if the connection is closed
	return nil
}

// respondText sends text unless it is empty: an empty message would end the response.
func respondText(r Request, text string) error {
	if text == "" {
		return nil
	}
	return r.Respond([]byte(text))
}

// failInfer responds with an error. The service counts it in its statistics.
func (g *Gateway) failInfer(r Request, info requestInfo, e *openai.Error) {
	g.recordResponse(info, e.Status)
	_ = r.Respond(inferError(e), micro.WithHeaders(errorHeaders(e))) // fails if the connection is closed
	_ = r.Respond(nil)
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
	return append(b, '}')
}

func quoteJSON(text string) []byte { return openai.AppendString(nil, text) }

// oneLine replaces control characters by spaces, so that the text is a valid header value.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, text)
}
