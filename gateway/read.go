package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"troupe/gateway/openai"
)

// maxBody is the maximum number of bytes of a request body.
const maxBody = 16 << 20

// textMaxTokens is the max_tokens of a plain-text request.
const textMaxTokens = 64

// read reads and parses a request.
func (g *Gateway) read(_ context.Context, gen *generation) (err error) {
	gen.req, err = gen.exchange.read(gen.memory)
	return err
}

// read implements exchange.
func (x *httpExchange) read(memory *reservation) (*openai.Request, error) {
	if isFromBrowser(x.r) {
		if err := requireJSON(x.r); err != nil {
			return nil, err
		}
	}
	data, err := readBody(x.w, x.r, memory)
	if err != nil {
		return nil, err
	}
	req, err := openai.Decode(data, x.isChat)
	if err != nil {
		return nil, err
	}
	if err := req.SetTimeout(x.r.Header.Get("X-Troupe-Timeout")); err != nil {
		return nil, err
	}
	if err := req.SetWait(x.r.Header.Get("X-Troupe-Wait")); err != nil {
		return nil, err
	}
	return req, req.SetPriority(x.r.Header.Get("X-Troupe-Priority"))
}

// readBody reads a request's body. The server cuts off a client that sends too slowly.
func readBody(w http.ResponseWriter, r *http.Request, memory *reservation) ([]byte, error) {
	data, err := memory.readAll(r.Context(), http.MaxBytesReader(w, r.Body, maxBody))
	if e := (*openai.Error)(nil); errors.As(err, &e) {
		return nil, e
	}
	if err != nil {
		return nil, bodyError(err)
	}
	return data, nil
}

func bodyError(err error) *openai.Error {
	e := openai.Invalid("", "the request could not be read: "+err.Error())
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		e.Status = http.StatusRequestEntityTooLarge
		e.Message = fmt.Sprintf("the request is larger than %d bytes", maxBody)
	} else if errors.Is(err, os.ErrDeadlineExceeded) {
		e.Status, e.Message = http.StatusRequestTimeout, "the request body stalled or arrived too slowly; send it again"
	}
	return e
}

// read implements exchange.
func (x *natsExchange) read(memory *reservation) (req *openai.Request, err error) {
	// Count the message twice: as received, which is kept while the request runs, and decoded.
	if !memory.tryGrow(int64(2 * len(x.msg.Data()))) {
		return nil, bodyMemoryExhausted()
	}
	req, x.text, err = decodeNATS(strings.TrimPrefix(x.msg.Subject(), inferPrefix), x.msg.Data())
	if err != nil {
		return nil, err
	}
	if err := req.SetWait(x.msg.Headers().Get("X-Troupe-Wait")); err != nil {
		return nil, err
	}
	return req, req.SetPriority(x.msg.Headers().Get("X-Troupe-Priority"))
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

func quoteJSON(text string) []byte { return openai.AppendString(nil, text) }
