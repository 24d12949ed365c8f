package openai

import (
	"slices"
	"strconv"
)

// TokenLogprob is a token's log-probability and those of the likeliest tokens at its position.
type TokenLogprob struct {
	Token   string
	Bytes   []byte
	Logprob float32
	Top     []TokenLogprob
	Offset  int // in characters of the choice's text
}

// minLogprob replaces the log-probability of impossible tokens, since JSON has no infinity.
const minLogprob = -9999

func appendLogprob(b []byte, logprob float32) []byte {
	if !(logprob > minLogprob) {
		logprob = minLogprob
	}
	return strconv.AppendFloat(b, float64(logprob), 'g', -1, 32)
}

// appendList appends a JSON list.
func appendList[T any](b []byte, all []T, item func([]byte, T) []byte) []byte {
	b = append(b, '[')
	for i, one := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = item(b, one)
	}
	return append(b, ']')
}

// appendChatLogprobs appends the log-probabilities of a chat: one object per token.
func appendChatLogprobs(b []byte, tokens []TokenLogprob) []byte {
	b = appendList(append(b, `{"content":`...), tokens, func(b []byte, t TokenLogprob) []byte {
		b = appendList(append(t.append(b), `,"top_logprobs":`...), t.Top, func(b []byte, t TokenLogprob) []byte {
			return append(t.append(b), '}')
		})
		return append(b, '}')
	})
	return append(b, `,"refusal":null}`...)
}

// append appends a token's JSON object without the closing brace.
func (t TokenLogprob) append(b []byte) []byte {
	b = AppendString(append(b, `{"token":`...), t.Token)
	b = appendLogprob(append(b, `,"logprob":`...), t.Logprob)
	return appendList(append(b, `,"bytes":`...), t.Bytes,
		func(b []byte, c byte) []byte { return strconv.AppendUint(b, uint64(c), 10) })
}

// appendCompletionLogprobs appends the log-probabilities of a completion: one list per property.
func appendCompletionLogprobs(b []byte, tokens []TokenLogprob) []byte {
	b = appendList(append(b, `{"tokens":`...), tokens,
		func(b []byte, t TokenLogprob) []byte { return AppendString(b, t.Token) })
	b = appendList(append(b, `,"token_logprobs":`...), tokens,
		func(b []byte, t TokenLogprob) []byte { return appendLogprob(b, t.Logprob) })
	b = appendList(append(b, `,"top_logprobs":`...), tokens,
		func(b []byte, t TokenLogprob) []byte { return t.appendTop(b) })
	b = appendList(append(b, `,"text_offset":`...), tokens,
		func(b []byte, t TokenLogprob) []byte { return strconv.AppendInt(b, int64(t.Offset), 10) })
	return append(b, '}')
}

// appendTop appends an object that maps texts to log-probabilities, for the likeliest tokens and
// the chosen one. Of tokens with the same text, it includes the likeliest.
func (t TokenLogprob) appendTop(b []byte) []byte {
	b = append(b, '{')
	all := append(slices.Clip(t.Top), t)
	for i, alt := range all {
		if slices.ContainsFunc(all[:i], func(before TokenLogprob) bool { return before.Token == alt.Token }) {
			continue
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = appendLogprob(append(AppendString(b, alt.Token), ':'), alt.Logprob)
	}
	return append(b, '}')
}
