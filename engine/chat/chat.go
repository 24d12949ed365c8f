package chat

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nikolalohinski/gonja/v2/config"
	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/loaders"
)

const (
	maxTemplate = 128 << 10 // bytes; it bounds how deep a template is nested
	maxOutput   = 16 << 20  // bytes
)

// Message is one turn of a conversation.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Template is a model's chat template. It is safe for concurrent use; a nil one renders nothing but ErrNoTemplate.
type Template struct {
	template *exec.Template
	tokens   map[string]string // bos_token and the like → text
}

// Parse reads a template, with the white space rules that transformers uses.
func Parse(text string) (_ *Template, err error) {
	defer caught(&err)
	if len(text) > maxTemplate {
		return nil, fmt.Errorf("the chat template has %d bytes; at most %d are read", len(text), maxTemplate)
	}
	cfg := config.New()
	cfg.TrimBlocks = true
	if text, err = prepare(text, cfg); err != nil {
		return nil, err
	}
	const name = "/chat_template"
	loader, err := loaders.NewMemoryLoader(map[string]string{name: text})
	if err != nil {
		return nil, err
	}
	t, err := exec.NewTemplate(name, cfg, loader, environment)
	if err != nil {
		return nil, oneLine(err)
	}
	return &Template{template: t}, nil
}

// Render writes a conversation. With prompt set, what invites the assistant's answer comes last.
func (t *Template) Render(messages []Message, prompt bool) (string, error) {
	return t.RenderWith(messages, prompt, nil)
}

// RenderWith is Render for all that a template may be given. messages is a list of objects in whatever form encodes to
// JSON: that of a request as it came will do. extra are further variables, such as tools; it cannot replace the usual ones.
func (t *Template) RenderWith(messages any, prompt bool, extra map[string]any) (_ string, err error) {
	if t == nil {
		return "", ErrNoTemplate
	}
	defer caught(&err)
	variables := make(map[string]any, len(extra)+len(t.tokens)+4)
	for name, v := range extra {
		if variables[name], err = ordered(v); err != nil {
			return "", fmt.Errorf("chat template: %s: %w", name, err)
		}
	}
	if variables["messages"], err = ordered(messages); err != nil {
		return "", fmt.Errorf("chat template: messages: %w", err)
	}
	for name, text := range t.tokens {
		variables[name] = text
	}
	variables["add_generation_prompt"] = prompt
	variables[budgetName] = &budget{}
	out := &limited{}
	if err := t.template.Execute(out, exec.NewContext(variables)); err != nil {
		return "", oneLine(err)
	}
	return out.String(), nil
}

// caught turns a panic of the template library into an error.
func caught(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("chat template: %v", p)
	}
}

// oneLine is what is behind an error of gonja, which tells the whole way to it, and the template too.
func oneLine(err error) error {
	for err != nil {
		var inner error
		switch e := err.(type) {
		case *exec.Value:
			inner, _ = e.Interface().(error)
		case interface{ Cause() error }:
			inner = e.Cause()
		default:
			inner = errors.Unwrap(err)
		}
		if inner == nil {
			break
		}
		err = inner
	}
	text := strings.TrimPrefix(err.Error(), "invalid call to function 'raise_exception': ")
	return fmt.Errorf("chat template: %s", strings.Join(strings.Fields(text), " "))
}

// limited is an output that refuses to grow beyond maxOutput.
type limited struct{ strings.Builder }

func (l *limited) Write(b []byte) (int, error) { return l.WriteString(string(b)) }

func (l *limited) WriteString(s string) (int, error) {
	if l.Len()+len(s) > maxOutput {
		return 0, fmt.Errorf("the output is longer than %d bytes", maxOutput)
	}
	return l.Builder.WriteString(s)
}
