package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
)

// Prompt is a prompt of text or of tokens.
type Prompt struct {
	Text      string
	Tokens    []uint32        // nil for text, and for tokens until ReadTokens or ReadLast
	rawTokens json.RawMessage // a list of token IDs, until it is read
	count     int
}

// Count returns the number of tokens, or 0 for text.
func (p *Prompt) Count() int { return p.count }

// ReadTokens reads the tokens, if the prompt is not text. Check Count against the limit first.
func (p *Prompt) ReadTokens() { p.ReadLast(p.count) }

// ReadLast reads only the last n tokens.
func (p *Prompt) ReadLast(n int) {
	if p.rawTokens == nil {
		return
	}
	skip := max(0, p.count-n)
	p.Tokens = make([]uint32, 0, p.count-skip)
	eachToken(p.rawTokens, func(id uint32) { // Decode validated the list
		if skip--; skip < 0 {
			p.Tokens = append(p.Tokens, id)
		}
	})
	p.rawTokens = nil
}

// readPrompts reads the messages of a chat or the prompts of a completion.
func (r *Request) readPrompts(b *body) (err error) {
	if !r.Chat {
		r.Prompts, err = decodePrompts(b.Prompt)
		return err
	}
	var all []json.RawMessage
	switch n := countElements(b.Messages); {
	case isNull(b.Messages) || n == 0 && b.Messages[0] == '[':
		return Invalid("messages", "messages is missing; send at least one message")
	case n > maxMessages:
		return Invalid("messages", fmt.Sprintf("%d messages exceed the maximum of %d; send fewer", n, maxMessages))
	case json.Unmarshal(b.Messages, &all) != nil:
		return Invalid("messages", "messages must be a list")
	}
	r.Messages = make([]Message, len(all))
	for i, raw := range all {
		if r.Messages[i], err = decodeMessage(raw); err != nil {
			field := fmt.Sprintf("messages[%d]", i)
			return Invalid(field, fmt.Sprintf("%s: %s", field, err))
		}
	}
	return nil
}

// decodePrompts decodes a string, a list of tokens, or a list of either.
func decodePrompts(raw json.RawMessage) ([]Prompt, error) {
	if isNull(raw) {
		return nil, Invalid("prompt", "prompt is missing")
	}
	if one, ok := decodePrompt(raw); ok {
		return []Prompt{one}, nil
	}
	if n := countElements(raw); n > maxSequences && !isNumberList(raw) {
		return nil, Invalid("prompt",
			fmt.Sprintf("%d prompts exceed the maximum of %d; send fewer at once", n, maxSequences))
	}
	var many []json.RawMessage
	if isNumberList(raw) || json.Unmarshal(raw, &many) != nil || len(many) == 0 {
		return nil, Invalid("prompt", "prompt must be a string, a list of tokens, or a list of either, and not empty")
	}
	all := make([]Prompt, len(many))
	for i, one := range many {
		var ok bool
		if all[i], ok = decodePrompt(one); !ok {
			return nil, Invalid("prompt",
				fmt.Sprintf("prompt[%d] must be a string or a list of tokens, and not empty", i))
		}
	}
	return all, nil
}

func decodePrompt(raw json.RawMessage) (p Prompt, ok bool) {
	switch {
	case isNull(raw):
		return p, false
	case raw[0] == '"':
		err := json.Unmarshal(raw, &p.Text)
		return p, err == nil
	}
	if p.count, ok = eachToken(raw, func(uint32) {}); ok {
		p.rawTokens = raw
	}
	return p, ok
}

// isNumberList reports whether a list begins with a number, so that it is meant as a list of
// tokens.
func isNumberList(raw json.RawMessage) bool {
	inner := bytes.TrimLeft(bytes.TrimPrefix(raw, []byte("[")), " \t\r\n")
	return raw[0] == '[' && (inner[0] == '-' || inner[0] >= '0' && inner[0] <= '9')
}

// eachToken calls use for each token ID in a list of valid JSON and returns their number. It
// returns false if the list is empty or contains anything else.
func eachToken(raw json.RawMessage, use func(id uint32)) (n int, ok bool) {
	list := bytes.TrimSuffix(bytes.TrimPrefix(raw, []byte("[")), []byte("]"))
	if len(list) != len(raw)-2 {
		return 0, false
	}
	for text := range bytes.SplitSeq(list, []byte(",")) {
		id, ok := tokenID(bytes.TrimSpace(text))
		if !ok {
			return n, false
		}
		use(id)
		n++
	}
	return n, true
}

// tokenID parses a token ID. Unlike strconv, it does not allocate, which matters for long prompts.
func tokenID(digits []byte) (uint32, bool) {
	id := uint64(0)
	for _, d := range digits {
		if d < '0' || d > '9' || id > math.MaxUint32 {
			return 0, false
		}
		id = 10*id + uint64(d-'0')
	}
	return uint32(id), len(digits) > 0 && id <= math.MaxUint32
}
