package openai

import (
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// Usage counts tokens.
type Usage struct{ Prompt, Completion, Cached int }

// Choice is what an answer or a chunk says of one choice.
type Choice struct {
	Index    int
	Text     string
	Logprobs []TokenLogprob // nil: none were asked for
	Finish   string         // "": null
	First    bool           // of a chat's chunks, which then carries the role
}

// TokenLogprob is a token's log-probability, with the likeliest others.
type TokenLogprob struct {
	Token   string
	Bytes   []byte
	Logprob float32
	Top     []TokenLogprob
	Offset  int // in characters, in the text of the choice
}

// Answer writes answers and chunks of one request.
type Answer struct {
	ID      string
	Model   string
	Created int64
	Chat    bool
	Usage   bool // chunks carry "usage": null, and the last one the counts
}

// Chunk appends one chunk of a stream.
func (a *Answer) Chunk(b []byte, c Choice) []byte {
	object := "text_completion"
	if a.Chat {
		object = "chat.completion.chunk"
	}
	b = a.head(b, object)
	b = append(b, `,"choices":[`...)
	b = a.choice(b, c, true)
	b = append(b, ']')
	if a.Usage {
		b = append(b, `,"usage":null`...)
	}
	return append(b, '}')
}

// UsageChunk appends the last chunk of a stream whose usage was asked for.
func (a *Answer) UsageChunk(b []byte, u Usage) []byte {
	object := "text_completion"
	if a.Chat {
		object = "chat.completion.chunk"
	}
	b = a.head(b, object)
	b = append(b, `,"choices":[],"usage":`...)
	return append(u.append(b), '}')
}

// Whole appends a complete answer.
func (a *Answer) Whole(b []byte, choices []Choice, u Usage) []byte {
	object := "text_completion"
	if a.Chat {
		object = "chat.completion"
	}
	b = a.head(b, object)
	b = append(b, `,"choices":[`...)
	for i, c := range choices {
		if i > 0 {
			b = append(b, ',')
		}
		b = a.choice(b, c, false)
	}
	b = append(b, `],"usage":`...)
	return append(u.append(b), '}')
}

func (a *Answer) head(b []byte, object string) []byte {
	b = append(b, `{"id":"`...)
	b = append(b, a.ID...)
	b = append(b, `","object":"`...)
	b = append(b, object...)
	b = append(b, `","created":`...)
	b = strconv.AppendInt(b, a.Created, 10)
	b = append(b, `,"model":`...)
	return AppendString(b, a.Model)
}

func (a *Answer) choice(b []byte, c Choice, chunk bool) []byte {
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
		b = appendJSON(b, chatLogprobs(c.Logprobs))
	default:
		b = appendJSON(b, completionLogprobs(c.Logprobs))
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

type topLogprob struct {
	Token   string  `json:"token"`
	Logprob float32 `json:"logprob"`
	Bytes   []int   `json:"bytes"`
}

func top(t TokenLogprob) topLogprob {
	l := topLogprob{Token: t.Token, Logprob: t.Logprob, Bytes: make([]int, len(t.Bytes))}
	for i, b := range t.Bytes {
		l.Bytes[i] = int(b)
	}
	return l
}

func chatLogprobs(tokens []TokenLogprob) any {
	type content struct {
		topLogprob
		Top []topLogprob `json:"top_logprobs"`
	}
	all := make([]content, len(tokens))
	for i, t := range tokens {
		all[i] = content{top(t), make([]topLogprob, len(t.Top))}
		for j, alt := range t.Top {
			all[i].Top[j] = top(alt)
		}
	}
	return map[string]any{"content": all, "refusal": nil}
}

func completionLogprobs(tokens []TokenLogprob) any {
	var l struct {
		Tokens        []string             `json:"tokens"`
		TokenLogprobs []float32            `json:"token_logprobs"`
		TopLogprobs   []map[string]float32 `json:"top_logprobs"`
		TextOffset    []int                `json:"text_offset"`
	}
	l.Tokens, l.TokenLogprobs, l.TextOffset = []string{}, []float32{}, []int{}
	for _, t := range tokens {
		l.Tokens, l.TokenLogprobs = append(l.Tokens, t.Token), append(l.TokenLogprobs, t.Logprob)
		l.TextOffset = append(l.TextOffset, t.Offset)
		alternatives := make(map[string]float32, len(t.Top))
		for _, alt := range t.Top {
			alternatives[alt.Token] = alt.Logprob
		}
		l.TopLogprobs = append(l.TopLogprobs, alternatives)
	}
	return l
}

func appendJSON(b []byte, v any) []byte {
	text, err := json.Marshal(v)
	if err != nil { // a log-probability that is no number
		return append(b, `null`...)
	}
	return append(b, text...)
}

// AppendString appends a JSON string. Bytes that are no text become U+FFFD.
func AppendString(b []byte, s string) []byte {
	b = append(b, '"')
	for len(s) > 0 {
		n := 0
		for n < len(s) && s[n] >= ' ' && s[n] != '"' && s[n] != '\\' && s[n] < utf8.RuneSelf {
			n++
		}
		if b, s = append(b, s[:n]...), s[n:]; len(s) == 0 {
			break
		}
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r < ' ':
			const hex = "0123456789abcdef"
			b = append(b, `\u00`...)
			b = append(b, hex[r>>4], hex[r&15])
		default: // U+2028 and U+2029 too: JSON allows them
			b = utf8.AppendRune(b, r)
		}
		s = s[size:]
	}
	return append(b, '"')
}
