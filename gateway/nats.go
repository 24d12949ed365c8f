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

// InferSubject is where inference requests go; the rest of the subject is the model's name, which may have dots.
const InferSubject = inferPrefix + ">"

const inferPrefix = "troupe.v1.infer."

// textMaxTokens is max_tokens of a request that is plain text.
const textMaxTokens = 64

// Request is a request over NATS, whose reply subject has been checked.
type Request interface {
	Subject() string
	Reply() string
	Headers() micro.Headers
	Data() []byte
	// Account returns the NATS account of the client, or "" where it is not known.
	Account() string
	// Respond sends an answer. A request may have several. An answer with micro.ErrorHeader is counted as an error.
	Respond(data []byte, opts ...micro.RespondOpt) error
}

// Infer handles a request over NATS: the JSON of a completion or, with messages, of a chat completion; or plain text, which is the
// prompt and is answered with text. Unless the request says "stream": false, the answer comes in a message per chunk; with
// "format": "text" a chunk is its text alone. An empty message ends the answer.
//
// What is wrong with a request is answered here; the generation goes on in a goroutine of its own, since the
// service takes one request at a time.
func (g *Gateway) Infer(r Request) {
	a := asked{endpoint: "infer", caller: caller{account: r.Account()}}
	if r.Reply() == "" {
		return // nobody waits for the answer
	}
	if _, ok := g.gate.enter(); !ok {
		g.failInfer(r, a, drainingError())
		return
	}
	h := g.reserveMemory()
	done := func() { h.shrink(0); g.gate.leave() }
	if !h.tryGrow(int64(2 * len(r.Data()))) { // as sent, and decoded; the message stays as long as the request
		done()
		g.failInfer(r, a, bodyMemoryExhausted())
		return
	}
	req, text, err := decodeNATS(strings.TrimPrefix(r.Subject(), inferPrefix), r.Data())
	if err == nil {
		err = req.SetPriority(r.Headers().Get("X-Troupe-Priority"))
	}
	if err != nil {
		done()
		g.failInfer(r, a, asError(err))
		return
	}
	turn, refused := g.admit(a.caller)
	if refused != nil {
		done()
		g.failInfer(r, a, refused)
		return
	}
	go func() {
		defer done()
		defer turn.release()
		if err := g.infer(r, req, text, &a, turn); err != nil {
			g.failInfer(r, a, asError(err))
			return
		}
		g.answered(a, http.StatusOK)
	}()
}

// decodeNATS reads a request for a model; the subject's name wins over the body's. text: the answer is to be text alone.
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
			return nil, false, openai.Invalid(
				"format",
				fmt.Sprintf("format is text, and there are %d choices; only json tells them apart", n),
			)
		}
		return req, true, nil
	default:
		return nil, false, openai.Invalid("format", fmt.Sprintf("format %s is not known; json and text are", format))
	}
}

func (g *Gateway) infer(r Request, req *openai.Request, text bool, a *asked, turn *admission) error {
	ctx := context.WithValue(
		context.Background(),
		callerKey{},
		a.caller,
	) // a client over NATS does not say when it leaves
	gen, err := g.prepare(ctx, req, a)
	if err == nil {
		err = turn.reserve(gen)
	}
	if err != nil {
		return err
	}
	answer, all := answerOf(gen), newGather(gen)
	write := all.write
	switch {
	case req.Stream && text:
		write = func(p piece) error { return respondText(r, p.text) }
	case req.Stream:
		write = func(p piece) error { return r.Respond(answer.AppendChunk(nil, gen.choiceOf(p))) }
	}
	if err := g.run(ctx, gen, write); err != nil {
		return err
	}
	gen.meter.finished(gen)
	switch {
	case !req.Stream && text:
		err = respondText(r, all.whole()[0].Text)
	case !req.Stream:
		err = r.Respond(answer.AppendResponse(nil, all.whole(), gen.usage()))
	case req.IncludeUsage && !text:
		err = r.Respond(answer.AppendUsageChunk(nil, gen.usage()))
	}
	if err != nil {
		return fmt.Errorf("send the answer: %w", err)
	}
	_ = r.Respond(nil) // the asker may be gone
	return nil
}

// respondText sends text. There may be none, and an empty message would end the answer.
func respondText(r Request, text string) error {
	if text == "" {
		return nil
	}
	return r.Respond([]byte(text))
}

// failInfer answers with an error, which the statistics of the service count.
func (g *Gateway) failInfer(r Request, a asked, e *openai.Error) {
	g.answered(a, e.Status)
	_ = r.Respond(inferError(e), micro.WithHeaders(errorHeaders(e))) // the asker may be gone
	_ = r.Respond(nil)
}

// errorHeaders are the headers of an answer with an error.
func errorHeaders(e *openai.Error) micro.Headers {
	h := micro.Headers{micro.ErrorHeader: {oneLine(e.Message)}, micro.ErrorCodeHeader: {strconv.Itoa(e.Status)}}
	if after := retryAfter(e); after != "" {
		h["Retry-After"] = []string{after}
	}
	return h
}

// inferError is a messages.ErrorResponse.
func inferError(e *openai.Error) []byte {
	b := fmt.Appendf(nil, `{"reason":%q,"error":%s`, e.Reason, quoteJSON(e.Message))
	if e.Param != nil {
		b = fmt.Appendf(b, `,"param":%s`, quoteJSON(*e.Param))
	}
	return append(b, '}')
}

func quoteJSON(text string) []byte { return openai.AppendString(nil, text) }

// oneLine makes a text fit a header.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, text)
}
