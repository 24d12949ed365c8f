package chat_test

import (
	"errors"
	"strings"
	"testing"

	"troupe/engine/chat"
	"troupe/testkit"
)

var talk = []chat.Message{{Role: "system", Content: "Be brief."}, {Role: "user", Content: "Hi"}}

func TestTemplates(t *testing.T) {
	for name, tc := range map[string]struct{ template, want string }{
		"ChatML": {
			"{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
			"<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
		},
		"Llama 3": {
			"{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}",
			"<|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
		},
		"blocks on lines of their own": {
			"{% for m in messages %}\n    {% if m.role == 'user' %}\n[INST] {{ m.content }} [/INST]\n    {% endif %}\n{% endfor %}",
			"[INST] Hi [/INST]\n",
		},
	} {
		tmpl, err := chat.Parse(tc.template)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, err := tmpl.Render(talk, true); got != tc.want || err != nil {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, tc.want)
		}
	}
}

func TestShippedModel(t *testing.T) {
	tmpl, err := chat.Load(testkit.Model())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := tmpl.Render(talk, true); got != "Be brief.\nHi\n" || err != nil {
		t.Fatalf("got %q, %v", got, err)
	}
}

func TestErrors(t *testing.T) {
	if _, err := chat.Load(t.TempDir()); !errors.Is(err, chat.ErrNoTemplate) {
		t.Errorf("no tokenizer_config.json: %v", err)
	}
	if _, err := chat.Parse("{% for %}"); err == nil {
		t.Error("a damaged template is accepted")
	}
	tmpl, err := chat.Parse("{{ raise_exception('roles must alternate') }}")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tmpl.Render(talk, true); err == nil || !strings.Contains(err.Error(), "roles must alternate") {
		t.Errorf("raise_exception: %v", err)
	}
	if tmpl, err = chat.Parse("{% for i in range(100000) %}{% for j in range(1000) %}aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa{% endfor %}{% endfor %}"); err != nil {
		t.Fatal(err)
	}
	if _, err := tmpl.Render(talk, true); err == nil {
		t.Error("a template without end is rendered")
	}
}
