package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
)

// Prompt is text, or tokens.
type Prompt struct {
	Text      string
	Tokens    []uint32        // nil: Text, or tokens that ReadTokens has not read yet
	rawTokens json.RawMessage // a list of token ids
	count     int
}

// Count returns the number of tokens of a prompt that is not text.
func (p *Prompt) Count() int { return p.count }

// ReadTokens reads the tokens of a prompt that is not text. A caller compares Count with what it
// takes first.
func (p *Prompt) ReadTokens() { p.ReadLast(p.count) }

// ReadLast is ReadTokens for no more than the last n.
func (p *Prompt) ReadLast(n int) {
	if p.rawTokens == nil {
		return
	}
	skip := max(0, p.count-n)
	p.Tokens = make([]uint32, 0, p.count-skip)
	eachToken(p.rawTokens, func(id uint32) { // Decode has checked the list
		if skip--; skip < 0 {
			p.Tokens = append(p.Tokens, id)
		}
	})
	p.rawTokens = nil
}

// readPrompts reads the messages of a chat, or the decodePrompts of a completion.
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
		return Invalid("messages", fmt.Sprintf("%d messages are more than %d; send fewer", n, maxMessages))
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

// decodePrompts reads a string, a list of tokens, or a list of either.
func decodePrompts(raw json.RawMessage) ([]Prompt, error) {
	if isNull(raw) {
		return nil, Invalid("prompt", "prompt is missing")
	}
	if one, ok := decodePrompt(raw); ok {
		return []Prompt{one}, nil
	}
	if n := countElements(raw); n > maxSequences && !isNumberList(raw) {
		return nil, Invalid("prompt", fmt.Sprintf("%d prompts are more than %d; send fewer at once", n, maxSequences))
	}
	var many []json.RawMessage
	if isNumberList(raw) || json.Unmarshal(raw, &many) != nil || len(many) == 0 {
		return nil, Invalid("prompt", "prompt must be a string, a list of tokens, or a list of either, and not empty")
	}
	all := make([]Prompt, len(many))
	for i, one := range many {
		var ok bool
		if all[i], ok = decodePrompt(one); !ok {
			return nil, Invalid(
				"prompt",
				fmt.Sprintf("prompt[%d] must be a string or a list of tokens, and not empty", i),
			)
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

// isNumberList reports whether a list begins with a number: it is one of tokens, though not a valid one.
func isNumberList(raw json.RawMessage) bool {
	inner := bytes.TrimLeft(bytes.TrimPrefix(raw, []byte("[")), " \t\r\n")
	return raw[0] == '[' && (inner[0] == '-' || inner[0] >= '0' && inner[0] <= '9')
}

// eachToken calls use for each of a list of token ids, in JSON that is valid, and counts them. It
// returns false where it is another list, or an empty one.
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

// tokenID reads digits. Long decodePrompts are made of them, and strconv would allocate for each.
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
