package chat_test

import (
	"strings"
	"testing"
	"time"

	"troupe/modelfile/chat"
	"troupe/testkit"
)

// templates resemble those shipped with models.
var templates = []string{
	"{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + " +
		"'\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
	"{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + " +
		"message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == " +
		"0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}",
	`{%- if messages[0]["role"] == "system" %}{%- set system_message = messages[0]["content"] %}
{%- set loop_messages = messages[1:] %}{%- else %}{%- set loop_messages = messages %}{%- endif %}
{%- set ns = namespace(turn=0) %}
{%- for message in loop_messages %}
    {%- if (message.role == "user") != (ns.turn % 2 == 0) %}{{ raise_exception("roles must alternate") }}{% endif %}
    {%- set ns.turn = ns.turn + 1 %}
    {{- "[INST] " + message["content"] + "[/INST]" }}
{%- endfor %}`,
	`{%- if tools %}
    {{- '<|im_start|>system\n' }}{{- "\n\n# Tools\n<tools>" }}
    {%- for tool in tools %}{{- "\n" }}{{- tool | tojson }}{%- endfor %}
    {{- "\n</tools><|im_end|>\n" }}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first)
           or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}{%- set tool_call = tool_call.function %}{%- endif %}
            {{- '\n<tool_call>\n{"name": "' }}{{- tool_call.name }}{{- '", "arguments": ' }}
            {{- tool_call.arguments | tojson }}{{- '}\n</tool_call>' }}
        {%- endfor %}
    {%- elif message.role == "tool" %}
        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}{{- '<|im_start|>user' }}{%- endif %}
        {{- message.content }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}{{- '<|im_end|>\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}`,
	`{%- macro param_type(p, depth=0) %}{% if p.type == "array" %}{{ param_type(p["items"], depth + 1) }}[]{% elif ` +
		`p.type in ["string", "number"] %}{{ p.type }}{% else %}any{% endif %}{%- endmacro %}{{ param_type({"type": ` +
		`"array", "items": {"type": "string"}}) }}`,
	"{% if '</think>' in messages[-1].content %}{{ messages[-1].content.split('</think>')[-1].lstrip('\n') }}{% " +
		"endif %}{{ messages[::-1] | length }}{{ strftime_now('%d %b %Y') }}",
	"{% generation %}{{ messages | map(attribute='content') | join('\n') | indent(2) }}{% endgeneration %}{% for k, " +
		"v in messages[0].items() | sort %}{{ k | upper }}={{ v | e }}{% endfor %}",
}

func FuzzTemplate(f *testing.F) {
	for _, template := range templates {
		f.Add(template, "Hi")
	}
	for _, template := range bombs {
		if len(template) < 4096 { // TestBombs covers the longer ones
			f.Add(strings.ReplaceAll(template, "000", ""), "x") // smaller numbers render faster
		}
	}
	f.Fuzz(func(t *testing.T, template, content string) {
		conversation := []chat.Message{
			{Role: "system", Content: content},
			{Role: "user", Content: content},
			{Role: "assistant", Content: content},
			{Role: "user", Content: content},
		}
		testkit.Allocates(t, bombAllocs, func() {
			tmpl, err := chat.Parse(template)
			if err == nil {
				at := time.Unix(0, 0)
				_, err = tmpl.RenderAt(conversation, func() time.Time { // a fast clock keeps executions short
					at = at.Add(50 * time.Millisecond)
					return at
				})
			}
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Fatalf("a multi-line error: %v", err)
			}
		})
	})
}
