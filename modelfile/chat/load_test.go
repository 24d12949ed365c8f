package chat_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"troupe/modelfile"
	"troupe/modelfile/chat"
)

func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestLoad(t *testing.T) {
	const tokens = `"bos_token":"<s>","eos_token":{"content":"</s>"},"unk_token":null,"add_bos_token":true`
	for name, files := range map[string]map[string]string{
		"a template": {
			"tokenizer_config.json": `{` + tokens + `,"chat_template":"{{ bos_token }}{{ eos_token }}{{ unk_token }}` +
				`{{ add_bos_token }}"}`,
		},
		"the default of several": {
			"tokenizer_config.json": `{` + tokens + `,"chat_template":[{"name":"rag","template":"x"},` +
				`{"name":"default","template":"{{ bos_token }}{{ eos_token }}"}]}`,
		},
		"a file of its own first": {
			"tokenizer_config.json": `{` + tokens + `,"chat_template":"x"}`,
			"chat_template.jinja":   "{{ bos_token }}{{ eos_token }}",
		},
	} {
		tmpl, err := chat.Load(modelfile.Roots{}, folder(t, files))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, err := tmpl.Render(nil, true); got != "<s></s>" || err != nil {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
}

func TestLoadErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		files map[string]string
		want  string
		none  bool
	}{
		"nothing":     {nil, "tokenizer_config.json", true},
		"no template": {map[string]string{"tokenizer_config.json": `{}`}, "tokenizer_config.json", true},
		"null": {
			map[string]string{"tokenizer_config.json": `{"chat_template":null}`}, "tokenizer_config.json", true,
		},
		"not JSON": {map[string]string{"tokenizer_config.json": `{`}, "tokenizer_config.json", false},
		"not a template": {
			map[string]string{"tokenizer_config.json": `{"chat_template":7}`}, "chat_template", false,
		},
		"no default": {
			map[string]string{"tokenizer_config.json": `{"chat_template":[{"name":"rag","template":"x"}]}`}, "default",
			false,
		},
		"a damaged template": {map[string]string{"chat_template.jinja": "{% if %}"}, "chat_template.jinja", false},
		"a template too long": {
			map[string]string{"chat_template.jinja": strings.Repeat("x", 1<<20)}, "chat_template.jinja", false,
		},
	} {
		_, err := chat.Load(modelfile.Roots{}, folder(t, tc.files))
		if err == nil || !strings.Contains(err.Error(), tc.want) || errors.Is(err, chat.ErrNoTemplate) != tc.none ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want one line with %q", name, err, tc.want)
		}
	}
	var none *chat.Template
	if _, err := none.Render(talk, true); !errors.Is(err, chat.ErrNoTemplate) {
		t.Errorf("no template renders with %v", err)
	}
}
