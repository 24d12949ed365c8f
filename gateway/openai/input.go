package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// Prompt is text, or tokens.
type Prompt struct {
	Text   string
	Tokens []uint32 // nil: Text
}

// Message is one turn of a chat.
type Message struct{ Role, Content string }

// readInput reads the messages of a chat, or the prompts of a completion.
func (r *Request) readInput(b *body) (err error) {
	if !r.Chat {
		r.Prompts, err = prompts(b.Prompt)
		return err
	}
	if len(b.Messages) == 0 {
		return Invalid("messages", "messages is missing; send at least one message")
	}
	r.Messages = make([]Message, len(b.Messages))
	for i, raw := range b.Messages {
		if r.Messages[i], err = message(raw); err != nil {
			field := fmt.Sprintf("messages[%d]", i)
			return Invalid(field, fmt.Sprintf("%s: %s", field, err))
		}
	}
	return nil
}

// message reads a turn; its content is a string, or a list of parts of which text is supported.
func message(raw json.RawMessage) (Message, error) {
	var m struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return Message{}, errors.New("it must be an object with role and content")
	}
	if m.Role == "" {
		return Message{}, errors.New("role is missing")
	}
	var text string
	if absent(m.Content) || json.Unmarshal(m.Content, &text) == nil {
		return Message{m.Role, text}, nil
	}
	var parts []struct{ Type, Text string }
	if json.Unmarshal(m.Content, &parts) != nil {
		return Message{}, errors.New("content must be a string or a list of text parts")
	}
	for _, p := range parts {
		if p.Type != "text" {
			return Message{}, fmt.Errorf("content of type %q is not supported; text is", p.Type)
		}
		text += p.Text
	}
	return Message{m.Role, text}, nil
}

// prompts reads a string, a list of tokens, or a list of either.
func prompts(raw json.RawMessage) ([]Prompt, error) {
	if absent(raw) {
		return nil, Invalid("prompt", "prompt is missing")
	}
	if one, ok := prompt(raw); ok {
		return []Prompt{one}, nil
	}
	var many []json.RawMessage
	if json.Unmarshal(raw, &many) != nil || len(many) == 0 {
		return nil, Invalid("prompt", "prompt must be a string, a list of tokens, or a list of either, and not empty")
	}
	if len(many) > maxSequences {
		return nil, Invalid("prompt", fmt.Sprintf("%d prompts are more than %d; send fewer at once", len(many), maxSequences))
	}
	all := make([]Prompt, len(many))
	for i, one := range many {
		var ok bool
		if all[i], ok = prompt(one); !ok {
			return nil, Invalid("prompt", fmt.Sprintf("prompt[%d] must be a string or a list of tokens, and not empty", i))
		}
	}
	return all, nil
}

func prompt(raw json.RawMessage) (p Prompt, ok bool) {
	switch {
	case absent(raw):
		return p, false
	case raw[0] == '"':
		err := json.Unmarshal(raw, &p.Text)
		return p, err == nil
	}
	p.Tokens, ok = tokens(raw)
	return p, ok
}

// tokens reads a list of token ids, which is not empty, from JSON that is valid. It is what long prompts are made of.
func tokens(raw json.RawMessage) ([]uint32, bool) {
	list := bytes.TrimSuffix(bytes.TrimPrefix(raw, []byte("[")), []byte("]"))
	if len(list) != len(raw)-2 {
		return nil, false
	}
	ids := make([]uint32, 0, 1+bytes.Count(list, []byte(",")))
	for id := range bytes.SplitSeq(list, []byte(",")) {
		n, err := strconv.ParseUint(string(bytes.TrimSpace(id)), 10, 32)
		if err != nil {
			return nil, false
		}
		ids = append(ids, uint32(n))
	}
	return ids, true
}
