package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"troupe/modelfile"
)

const (
	configName = "tokenizer_config.json"
	jinjaName  = "chat_template.jinja"
)

// ErrNoTemplate means that the model has no chat template.
var ErrNoTemplate = errors.New(
	"the model has no chat template; use /v1/completions, or add chat_template to its tokenizer_config.json",
)

// Load reads the template of a model folder from chat_template.jinja, or else from chat_template in
// tokenizer_config.json. It returns ErrNoTemplate if neither exists.
func Load(roots modelfile.Roots, dir string) (*Template, error) {
	path := filepath.Join(dir, configName)
	b, err := read(roots, path, modelfile.TokenizerConfig)
	if err != nil {
		return nil, err
	}
	text, tokens, err := readConfig(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	jinja, err := read(roots, filepath.Join(dir, jinjaName), modelfile.Template)
	if err != nil {
		return nil, err
	}
	if jinja != nil {
		path, text = filepath.Join(dir, jinjaName), string(jinja)
	}
	if text == "" {
		return nil, fmt.Errorf("%s: %w", path, ErrNoTemplate)
	}
	t, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	t.tokens, t.path = tokens, path
	return t, nil
}

// read returns nil for a file that does not exist.
func read(roots modelfile.Roots, path string, most modelfile.MaxBytes) ([]byte, error) {
	b, err := roots.Read(path, most)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return b, err
}

// readConfig returns the template and the special tokens by their names in templates.
func readConfig(b []byte) (text string, tokens map[string]string, err error) {
	var fields map[string]json.RawMessage
	if len(b) > 0 {
		if err := modelfile.Unmarshal(b, &fields); err != nil {
			return "", nil, err
		}
	}
	tokens = make(map[string]string)
	for name, raw := range fields {
		var token struct {
			Content string `json:"content"`
		}
		if strings.HasSuffix(name, "_token") &&
			(json.Unmarshal(raw, &token.Content) == nil || json.Unmarshal(raw, &token) == nil) {
			tokens[name] = token.Content
		}
	}
	text, err = source(fields["chat_template"])
	return text, tokens, err
}

// source returns the template, or the default of a list of named ones.
func source(raw json.RawMessage) (string, error) {
	var text string
	if len(raw) == 0 || json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	var named []struct{ Name, Template string }
	if err := json.Unmarshal(raw, &named); err != nil {
		return "", fmt.Errorf("chat_template: %w", modelfile.RedactJSONError(err))
	}
	for _, n := range named {
		if n.Name == "default" {
			return n.Template, nil
		}
	}
	return "", errors.New("chat_template: none of the templates is named default")
}
