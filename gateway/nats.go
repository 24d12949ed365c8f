package gateway

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/nats-io/nats.go/micro"

	"troupe/gateway/openai"
	"troupe/messages"
)

// InferSubject is where inference requests go; the last token is the model's name. Names with dots have more.
const InferSubject = "troupe.v1.infer.>"

const inferPrefix = "troupe.v1.infer."

// Infer handles a request over NATS: the JSON of a completion or, with messages, of a chat completion; or plain text, which is the
// prompt. The answer is streamed: a message per chunk, then an empty one. Where the request was plain text, or says
// "format": "text", chunks are text alone.
func (g *Gateway) Infer(r micro.Request) {
	if g.inFlight.Add(1) > int64(g.cfg.MaxInFlight) {
		g.inFlight.Add(-1)
		g.failNATS(r, busy())
		return
	}
	go func() {
		defer g.inFlight.Add(-1)
		req, text, err := decodeNATS(strings.TrimPrefix(r.Subject(), inferPrefix), r.Data())
		if err == nil {
			err = g.infer(r, req, text)
		}
		if err != nil {
			g.failNATS(r, asError(err))
			return
		}
		g.metrics.answered("infer", 200)
	}()
}

// decodeNATS reads a request for a model; the subject's name wins over the body's.
func decodeNATS(model string, data []byte) (req *openai.Request, text bool, err error) {
	if !utf8.Valid(data) {
		return nil, false, openai.Invalid("", "the request is not valid UTF-8")
	}
	fields := map[string]json.RawMessage{}
	if trimmed := strings.TrimSpace(string(data)); !strings.HasPrefix(trimmed, "{") {
		prompt, err := json.Marshal(trimmed)
		if err != nil {
			return nil, true, openai.Invalid("prompt", err.Error())
		}
		fields["prompt"], fields["format"], fields["stream"] = prompt, json.RawMessage(`"text"`), json.RawMessage(`true`)
		fields["max_tokens"] = json.RawMessage("64")
	} else if err := json.Unmarshal(data, &fields); err != nil {
		return nil, false, openai.Invalid("", "the request is not valid JSON: "+err.Error())
	}
	if _, ok := fields["stream"]; !ok {
		fields["stream"] = json.RawMessage(`true`)
	}
	name, err := json.Marshal(model)
	if err != nil {
		return nil, false, openai.Invalid("model", err.Error())
	}
	fields["model"] = name
	whole, err := json.Marshal(fields)
	if err != nil {
		return nil, false, openai.Invalid("", err.Error())
	}
	_, isChat := fields["messages"]
	req, err = openai.Decode(whole, isChat)
	return req, string(fields["format"]) == `"text"`, err
}

func (g *Gateway) infer(r micro.Request, req *openai.Request, text bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), req.Timeout+2*grace)
	defer cancel()
	gen, err := g.prepare(ctx, req)
	if err != nil {
		return err
	}
	answer, all := answerOf(gen), newGather(gen)
	write := all.write
	if req.Stream {
		write = func(p piece) error {
			if text {
				if p.text == "" {
					return nil // an empty message would end the answer
				}
				return r.Respond([]byte(p.text))
			}
			return r.Respond(answer.Chunk(nil, gen.choiceOf(p, 0)))
		}
	}
	if err := g.run(ctx, gen, write); err != nil {
		return err
	}
	g.metrics.generated(gen)
	switch {
	case req.Stream && req.IncludeUsage:
		err = r.Respond(answer.UsageChunk(nil, gen.usage()))
	case !req.Stream && text:
		err = r.Respond([]byte(all.choices[0].Text))
	case !req.Stream:
		err = r.Respond(answer.Whole(nil, all.choices, gen.usage()))
	}
	if err != nil {
		return openai.Refusal(messages.Reason_REASON_CANCELLED, err.Error())
	}
	_ = r.Respond(nil) // the asker may be gone
	return nil
}

func (g *Gateway) failNATS(r micro.Request, e *openai.Error) {
	g.metrics.answered("infer", e.Status)
	body, err := json.Marshal(map[string]string{"reason": e.Reason.String(), "error": e.Message})
	if err != nil {
		body = nil
	}
	_ = r.Error(strconv.Itoa(e.Status), strings.ReplaceAll(e.Message, "\n", " "), body) // the asker may be gone
	_ = r.Respond(nil)
}
