package openai

import "strconv"

// Usage is the token usage of a request. Cached tokens are part of the prompt's.
type Usage struct{ Prompt, Completion, Cached int }

// Choice is a choice of a response, or its new part in a chunk.
type Choice struct {
	Index    int
	Text     string
	Logprobs []TokenLogprob // nil: not requested
	Finish   string         // finish_reason; "" means null
	First    bool           // first chunk of a choice, which carries the role in a chat
}

// ResponseEncoder encodes the response or the chunks of one request as JSON.
type ResponseEncoder struct {
	ID           string
	Model        string
	Created      int64
	Chat         bool
	Simulated    bool // nothing has computed the text; system_fingerprint says so
	IncludeUsage bool // chunks carry "usage": null, and the last chunk the usage
}

// AppendChunk appends one chunk of a stream.
func (a *ResponseEncoder) AppendChunk(b []byte, c Choice) []byte {
	object := "text_completion"
	if a.Chat {
		object = "chat.completion.chunk"
	}
	b = a.appendHeader(b, object)
	b = append(b, `,"choices":[`...)
	b = a.appendChoice(b, c, true)
	b = append(b, ']')
	if a.IncludeUsage {
		b = append(b, `,"usage":null`...)
	}
	return append(b, '}')
}

// AppendUsageChunk appends the last chunk of a stream, which carries the usage.
func (a *ResponseEncoder) AppendUsageChunk(b []byte, u Usage) []byte {
	object := "text_completion"
	if a.Chat {
		object = "chat.completion.chunk"
	}
	b = a.appendHeader(b, object)
	b = append(b, `,"choices":[],"usage":`...)
	return append(u.append(b), '}')
}

// AppendResponse appends a complete response.
func (a *ResponseEncoder) AppendResponse(b []byte, choices []Choice, u Usage) []byte {
	object := "text_completion"
	if a.Chat {
		object = "chat.completion"
	}
	b = a.appendHeader(b, object)
	b = append(b, `,"choices":[`...)
	for i, c := range choices {
		if i > 0 {
			b = append(b, ',')
		}
		b = a.appendChoice(b, c, false)
	}
	b = append(b, `],"usage":`...)
	return append(u.append(b), '}')
}

func (a *ResponseEncoder) appendHeader(b []byte, object string) []byte {
	b = append(b, `{"id":"`...)
	b = append(b, a.ID...)
	b = append(b, `","object":"`...)
	b = append(b, object...)
	b = append(b, `","created":`...)
	b = strconv.AppendInt(b, a.Created, 10)
	if a.Simulated {
		b = append(b, `,"system_fingerprint":"simulated"`...)
	}
	b = append(b, `,"model":`...)
	return AppendString(b, a.Model)
}

func (a *ResponseEncoder) appendChoice(b []byte, c Choice, chunk bool) []byte {
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, int64(c.Index), 10)
	switch {
	case !a.Chat:
		b = AppendString(append(b, `,"text":`...), c.Text)
	case chunk && c.First:
		b = AppendString(append(b, `,"delta":{"role":"assistant","content":`...), c.Text)
		b = append(b, '}')
	case chunk:
		b = AppendString(append(b, `,"delta":{"content":`...), c.Text)
		b = append(b, '}')
	default:
		b = AppendString(append(b, `,"message":{"role":"assistant","content":`...), c.Text)
		b = append(b, '}')
	}
	b = append(b, `,"logprobs":`...)
	switch {
	case c.Logprobs == nil:
		b = append(b, `null`...)
	case a.Chat:
		b = appendChatLogprobs(b, c.Logprobs)
	default:
		b = appendCompletionLogprobs(b, c.Logprobs)
	}
	b = append(b, `,"finish_reason":`...)
	if c.Finish == "" {
		return append(b, `null}`...)
	}
	return append(AppendString(b, c.Finish), '}')
}

func (u Usage) append(b []byte) []byte {
	b = strconv.AppendInt(append(b, `{"prompt_tokens":`...), int64(u.Prompt), 10)
	b = strconv.AppendInt(append(b, `,"completion_tokens":`...), int64(u.Completion), 10)
	b = strconv.AppendInt(append(b, `,"total_tokens":`...), int64(u.Prompt+u.Completion), 10)
	b = strconv.AppendInt(append(b, `,"prompt_tokens_details":{"cached_tokens":`...), int64(u.Cached), 10)
	return append(b, `}}`...)
}
