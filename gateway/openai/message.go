package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Message is one turn of a chat.
type Message struct {
	Role, Content string
	NoContent     bool            // content is null
	Name          string          // name of the participant
	ToolCalls     json.RawMessage // calls of an assistant's turn; arguments are decoded objects
	ToolCallID    string          // the call that a tool's turn answers
	Reasoning     string          // reasoning before an assistant's answer
}

// MarshalJSON encodes the message in the form that chat templates expect.
func (m Message) MarshalJSON() ([]byte, error) {
	turn := struct {
		Role       string          `json:"role"`
		Content    *string         `json:"content"`
		Name       string          `json:"name,omitempty"`
		ToolCalls  json.RawMessage `json:"tool_calls,omitempty"`
		ToolCallID string          `json:"tool_call_id,omitempty"`
		Reasoning  string          `json:"reasoning_content,omitempty"`
	}{m.Role, &m.Content, m.Name, m.ToolCalls, m.ToolCallID, m.Reasoning}
	if m.NoContent {
		turn.Content = nil
	}
	return json.Marshal(turn)
}

// blank reports whether the content is empty or only white space.
func (m Message) blank() bool { return strings.TrimSpace(m.Content) == "" }

// decodeMessage decodes one turn.
func decodeMessage(raw json.RawMessage) (Message, error) {
	var t struct {
		Role         string          `json:"role"`
		Content      json.RawMessage `json:"content"`
		Name         json.RawMessage `json:"name"`
		ToolCalls    json.RawMessage `json:"tool_calls"`
		ToolCallID   json.RawMessage `json:"tool_call_id"`
		Reasoning    json.RawMessage `json:"reasoning_content"`
		FunctionCall json.RawMessage `json:"function_call"`
	}
	if err := json.Unmarshal(raw, &t); err != nil {
		return Message{}, errors.New("it must be an object with role and content")
	}
	m := Message{Role: t.Role}
	if m.Role == "" {
		return m, errors.New("role is missing")
	}
	if !isNull(t.FunctionCall) {
		return m, errors.New("function_call is not supported; send tool_calls")
	}
	for _, f := range []struct {
		name  string
		value json.RawMessage
		to    *string
	}{
		{"name", t.Name, &m.Name}, {"tool_call_id", t.ToolCallID, &m.ToolCallID},
		{"reasoning_content", t.Reasoning, &m.Reasoning},
	} {
		if !isNull(f.value) && json.Unmarshal(f.value, f.to) != nil {
			return m, fmt.Errorf("%s must be a string", f.name)
		}
	}
	var err error
	if m.ToolCalls, err = decodeToolCalls(t.ToolCalls); err != nil {
		return m, err
	}
	// Assistants may omit the content of a turn with tool calls. In other turns, missing content is
	// empty.
	if m.NoContent = len(t.Content) > 0 && isNull(t.Content) || len(t.Content) == 0 && m.ToolCalls != nil; m.NoContent {
		return m, nil
	}
	m.Content, err = decodeContent(t.Content)
	return m, err
}

// decodeContent decodes a string or a list of text parts.
func decodeContent(raw json.RawMessage) (text string, err error) {
	if isNull(raw) || json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	var parts []struct{ Type, Text string }
	if n := countElements(raw); n > maxParts {
		return "", fmt.Errorf("content has %d parts; at most %d are allowed", n, maxParts)
	}
	if json.Unmarshal(raw, &parts) != nil {
		return "", errors.New("content must be a string or a list of text parts")
	}
	var joined strings.Builder
	for _, p := range parts {
		if p.Type != "text" {
			return "", fmt.Errorf("content of type %q is not supported; use text", p.Type)
		}
		joined.WriteString(p.Text)
	}
	return joined.String(), nil
}
