// Package chat renders conversations with the chat template of a model's tokenizer_config.json.
package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nikolalohinski/gonja/v2"
	"github.com/nikolalohinski/gonja/v2/config"
	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/loaders"
)

// ErrNoTemplate says that the model is not made for conversations.
var ErrNoTemplate = errors.New("the model has no chat template; use /v1/completions, or add chat_template to tokenizer_config.json")

// maxOutput bounds what a template may write, so that a looping one ends.
const maxOutput = 16 << 20

// Message is one turn of a conversation.
type Message struct {
	Role    string
	Content string
}

// Template is a model's chat template. It is safe for concurrent use.
type Template struct {
	template *exec.Template
	bos, eos string
}

// Load reads the template of a model folder, or returns ErrNoTemplate.
func Load(dir string) (*Template, error) {
	path := filepath.Join(dir, "tokenizer_config.json")
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, ErrNoTemplate
	}
	if err != nil {
		return nil, err
	}
	var c struct {
		Template json.RawMessage `json:"chat_template"`
		BOS      token           `json:"bos_token"`
		EOS      token           `json:"eos_token"`
	}
	if err := json.Unmarshal(b, &c); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	text, err := source(c.Template)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if jinja, err := os.ReadFile(filepath.Join(dir, "chat_template.jinja")); err == nil {
		text = string(jinja)
	}
	if text == "" {
		return nil, ErrNoTemplate
	}
	t, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: chat_template: %w", path, err)
	}
	t.bos, t.eos = string(c.BOS), string(c.EOS)
	return t, nil
}

// token is a string, or an object with its content.
type token string

func (t *token) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) == nil {
		*t = token(s)
		return nil
	}
	var o struct {
		Content string `json:"content"`
	}
	err := json.Unmarshal(b, &o)
	*t = token(o.Content)
	return err
}

// source is the template, or of a list of named ones the default.
func source(raw json.RawMessage) (string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	var named []struct{ Name, Template string }
	if err := json.Unmarshal(raw, &named); err != nil {
		return "", fmt.Errorf("chat_template: %w", err)
	}
	for _, n := range named {
		if n.Name == "default" {
			return n.Template, nil
		}
	}
	return "", errors.New("chat_template: none of the templates is named default")
}

// Parse reads a template, with the white space rules that transformers uses.
func Parse(text string) (_ *Template, err error) {
	defer caught(&err)
	cfg := config.New()
	cfg.TrimBlocks, cfg.LeftStripBlocks, cfg.KeepTrailingNewline = true, true, false
	const id = "/chat_template"
	loader, err := loaders.NewFileSystemLoader("")
	if err != nil {
		return nil, err
	}
	shifted, err := loaders.NewShiftedLoader(id, strings.NewReader(text), loader)
	if err != nil {
		return nil, err
	}
	t, err := exec.NewTemplate(id, cfg, shifted, gonja.DefaultEnvironment)
	if err != nil {
		return nil, err
	}
	return &Template{template: t}, nil
}

// Render writes a conversation. With prompt set, what invites the assistant's answer comes last.
func (t *Template) Render(messages []Message, prompt bool) (_ string, err error) {
	defer caught(&err)
	turns := make([]map[string]any, len(messages))
	for i, m := range messages {
		turns[i] = map[string]any{"role": m.Role, "content": m.Content}
	}
	out := &limited{}
	if err := t.template.Execute(out, exec.NewContext(map[string]any{
		"messages": turns, "add_generation_prompt": prompt, "bos_token": t.bos, "eos_token": t.eos,
		"raise_exception": func(text string) (string, error) { return "", errors.New(text) },
		"strftime_now":    strftime,
	})); err != nil {
		return "", fmt.Errorf("chat template: %w", err)
	}
	return out.String(), nil
}

// caught turns a panic of the template library into an error.
func caught(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("chat template: %v", p)
	}
}

type limited struct{ strings.Builder }

func (l *limited) Write(b []byte) (int, error) {
	if l.Len()+len(b) > maxOutput {
		return 0, fmt.Errorf("the output is longer than %d bytes", maxOutput)
	}
	return l.Builder.Write(b)
}

// WriteString implements io.StringWriter, with the same limit.
func (l *limited) WriteString(s string) (int, error) { return l.Write([]byte(s)) }

var layouts = strings.NewReplacer("%Y", "2006", "%m", "01", "%d", "02", "%B", "January", "%b", "Jan", "%H", "15", "%M", "04", "%S", "05", "%A", "Monday")

func strftime(format string) string { return time.Now().Format(layouts.Replace(format)) }
