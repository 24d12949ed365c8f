package chat_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"troupe/modelfile"
	"troupe/modelfile/chat"
	"troupe/testkit"
)

var talk = []chat.Message{{Role: "system", Content: "Be brief."}, {Role: "user", Content: "Hi"}}

func parse(t testing.TB, template string) *chat.Template {
	t.Helper()
	tmpl, err := chat.Parse(template)
	if err != nil {
		t.Fatal(err)
	}
	return tmpl
}

func TestTemplates(t *testing.T) {
	for name, tc := range map[string]struct{ template, want string }{
		"ChatML": {
			"{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + " +
				"'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% " +
				"endif %}",
			"<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
		},
		"Llama 3": {
			"{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = " +
				"'<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + " +
				"'<|eot_id|>' %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ " +
				"'<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}",
			"<|start_header_id|>system<|end_header_id|>\n\nBe " +
				"brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>" +
				"<|start_header_id|>assistant<|end_header_id|>\n\n",
		},
		"Mistral": {
			`{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- set ns = namespace(turn=0) %}
{%- for message in loop_messages %}
    {%- if (message.role == "user") != (ns.turn % 2 == 0) %}{{ raise_exception("roles must alternate") }}{% endif %}
    {%- set ns.turn = ns.turn + 1 %}
    {%- if loop.last and system_message is defined %}
        {{- "[INST] " + system_message + "\n\n" + message["content"] + "[/INST]" }}
    {%- else %}
        {{- "[INST] " + message["content"] + "[/INST]" }}
    {%- endif %}
{%- endfor %}`,
			"[INST] Be brief.\n\nHi[/INST]",
		},
		"blocks on lines of their own": {
			"{% for m in messages %}\n    {% if m.role == 'user' %}\n[INST] {{ m.content }} [/INST]\n    {% endif " +
				"%}\n{% endfor %}",
			"[INST] Hi [/INST]\n",
		},
		"a macro, break and continue": {
			"{% macro tag(x, n=1) %}<{{ x }}{{ n }}>{% endmacro %}{% for m in messages %}{% if loop.first %}{% " +
				"continue %}{% endif %}{{ tag(m.role, n=loop.index) }}{% break %}{% endfor %}",
			"<user2>",
		},
		"what is marked for training": {
			"{% for m in messages %}{% generation %}{{ m.content }};{% endgeneration %}{% endfor %}", "Be brief.;Hi;",
		},
		"from the end": {
			"{{ messages[-1].role }} {{ messages[1:][-1].role }} {{ messages[-2].role }} {{ messages[-3] }} {{ " +
				"'a'.split('b')[-1] }} x[-1]", "user user system  a x[-1]",
		},
		"a range": {"{{ range(3) | list }}{{ range(5, 1, -2) | list }}", "[0, 1, 2][5, 3]"},
	} {
		if got, err := parse(t, tc.template).Render(talk, true); got != tc.want || err != nil {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, tc.want)
		}
	}
}

func TestShippedModel(t *testing.T) {
	tmpl, err := chat.Load(modelfile.Roots{}, testkit.Model())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := tmpl.Render(talk, true); got != "Be brief.\nHi\n" || err != nil {
		t.Fatalf("got %q, %v", got, err)
	}
}

// TestTools renders a request as received: objects keep the order of their keys, as in the models'
// training.
func TestTools(t *testing.T) {
	const template = "{% for t in tools %}{{ t | tojson }}\n{% for k, v in t.function.items() %}{{ k }} {% endfor " +
		"%}{% endfor %}" +
		"{% for m in messages %}{% if m.tool_calls %}{{ m.tool_calls[0].function.arguments | tojson(indent=2) }}{% " +
		"elif 'name' in m %}{{ m.name }}{% endif %}{% endfor %}"
	const messages = `[{"role":"user","content":"x"},{"role":"assistant","content":null,` +
		`"tool_calls":[{"function":{"name":"f","arguments":{"z":1,"a":[true,2.0,"<ö'\n>"],"e":{}}}}]},` +
		`{"role":"tool","name":"f","content":"7"}]`
	const tools = `[{"type":"function","function":{"name":"f","description":"<b>'\"é","parameters":null}}]`
	got, err := parse(
		t,
		template,
	).RenderWith(
		json.RawMessage(messages),
		true,
		map[string]any{"tools": json.RawMessage(tools)},
	)
	want := `{"type": "function", "function": {"name": "f", "description": "<b>'\"é", "parameters": ` +
		`null}}` + "\nname description parameters " +
		"{\n  \"z\": 1,\n  \"a\": [\n    true,\n    2.0,\n    \"<ö'\\n>\"\n  ],\n  \"e\": {}\n}f"
	if got != want || err != nil {
		t.Errorf("got %s, %v\nwant %s", got, err, want)
	}
}

func TestVariables(t *testing.T) {
	tmpl := parse(t, "{{ mode }} {{ add_generation_prompt }} {{ tools is defined }}{{ ' empty' if options else '' }}")
	got, err := tmpl.RenderWith(
		talk,
		false,
		map[string]any{"mode": "terse", "add_generation_prompt": "x", "options": struct{}{}},
	)
	if want := "terse False False"; got != want || err != nil {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	if got, err := tmpl.Render(talk, true); got != " True False" || err != nil {
		t.Errorf("variables of another rendering remain: %q, %v", got, err)
	}
}

func TestDate(t *testing.T) {
	const format = "%d %b %Y, 100%% of Jan 2"
	before := time.Now()
	got, err := parse(t, "{{ strftime_now('"+format+"') }}").Render(talk, true)
	after := time.Now()
	want := func(now time.Time) string { return now.Format("02 Jan 2006") + ", 100% of Jan 2" }
	if err != nil || got != want(before) && got != want(after) {
		t.Errorf("got %q, %v, want %q", got, err, want(after))
	}
	if _, err := parse(t, "{{ strftime_now('%Q') }}").Render(talk, true); err == nil {
		t.Error("an unknown directive is accepted")
	}
}

func TestConcurrentRendering(t *testing.T) {
	tmpl := parse(
		t,
		"{% macro m(x) %}{{ x }}{% endmacro %}{% for i in range(20) %}{% set n = i %}{{ m(n) }}{{ "+
			"messages[-1].content }}{% endfor %}",
	)
	want, err := tmpl.Render(talk, true)
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			if got, err := tmpl.Render(talk, true); got != want || err != nil {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
		})
	}
	wait.Wait()
}

func TestErrors(t *testing.T) {
	for name, tc := range map[string]struct{ template, want string }{
		"an error of the template": {
			"{% if true %}{% for m in messages %}{{ raise_exception('roles must alternate') }}{% endfor %}{% endif %}",
			"chat template: roles must alternate",
		},
		"output without end": {"{% for i in range(1000) %}{{ 'a' * 20000 }}{% endfor %}", "longer than"},
		"loops without end": {
			"{% for i in range(2000) %}{% for j in range(2000) %}{% endfor %}{% endfor %}", "rounds",
		},
		"a range without end":         {"{{ range(1000000000000) | length }}", "rounds"},
		"a macro that calls itself":   {"{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}", "deep"},
		"a loop that calls itself":    {"{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", "deep"},
		"division by zero":            {"{{ 1 % 0 }}", "divide by zero"},
		"a range without step":        {"{{ range(1, 2, 0) }}", "step"},
		"a call of nothing":           {"{{ nothing() }}", "not callable"},
		"an item of nothing":          {"{{ messages[7].role }}", "None"},
		"a value that is no JSON":     {"{{ range | tojson }}", "JSON"},
		"an option of tojson unknown": {"{{ messages | tojson(separators='x') }}", "separators"},
	} {
		_, err := parse(t, tc.template).Render(talk, true)
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want one line with %q", name, err, tc.want)
		}
	}
}

func TestRejectedTemplates(t *testing.T) {
	for name, tc := range map[string]struct{ template, want string }{
		"damaged":           {"{% for %}", "for"},
		"never closed":      {"{% if x %}" + strings.Repeat("line\n", 100), "chat template: "},
		"reads a file":      {"{% include '/etc/passwd' %}", "include"},
		"imports a file":    {"{% import '/etc/passwd' as x %}", "import"},
		"extends a file":    {"{% extends '/etc/passwd' %}", "extends"},
		"too long":          {strings.Repeat("x", 1<<20), "bytes"},
		"parentheses":       {"{{ " + strings.Repeat("(", 120<<10), "brackets"},
		"blocks in a block": {strings.Repeat("{% if x %}", 12<<10), ""},
	} {
		_, err := chat.Parse(tc.template)
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") ||
			len(err.Error()) > 200 {
			t.Errorf("%s: got %v, want one short line with %q", name, err, tc.want)
		}
	}
}
