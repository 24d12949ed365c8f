package chat_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"troupe/modelfile/chat"
)

// TestDeadline renders with a clock that jumps ahead.
func TestDeadline(t *testing.T) {
	readings := 0
	clock := func() time.Time {
		readings++
		return time.Unix(int64(readings), 0) // one second per reading
	}
	tmpl := parse(t, "{% for i in range(10000) %}{{ i }}{% endfor %}")
	_, err := tmpl.RenderAt(talk, clock)
	var fault *chat.Error
	if !errors.As(err, &fault) || !strings.Contains(err.Error(), "rendering takes longer than 1s") ||
		fault.Line != 1 {
		t.Errorf("got %v", err)
	}
	if readings > 5 {
		t.Errorf("rendering continued for %d readings of the clock", readings)
	}
	if _, err := tmpl.RenderAt(talk, func() time.Time { return time.Unix(1, 0) }); err != nil {
		t.Errorf("with a stopped clock: %v", err)
	}
}

// TestBounds checks which limit stops which work.
func TestBounds(t *testing.T) {
	for template, want := range map[string]string{
		"{{ 'x' * 10000000000 }}":           "a value is longer than",
		"{{ '' | center(100000000000) }}":   "a value is longer than",
		"{{ [1] * 10000000000 }}":           "a value is longer than",
		bombs["many long strings appended"]: "all values together exceed",
		bombs["a string to itself"]:         "a value is longer than",
		"{% macro f(n) %}{{ f(n)" + strings.Repeat("+1", 100) +
			" }}{% endmacro %}{{ f(1) }}": "expressions are nested more than",
		bombs["output"]:                                          "a value is longer than",
		bombs["a macro in itself"]:                               "macros and loops are nested more than 128 levels",
		bombs["a long list searched"]:                            "operations",
		bombs["a macro twice in itself"]:                         "", // either the rounds or the time limit
		bombs["a value of many levels"]:                          "levels deep",
		"{{ [1, 'a'] | sort }}":                                  "no order",
		"{{ messages.x.y }}":                                     "None has no attributes",
		"{% set messages[0].role = 'x' %}":                       "only attributes of a namespace",
		"{{ messages | selectattr('role', 'nonsense') | list }}": "unknown test",
		"{{ messages | map('nonsense') | list }}":                "unknown filter",
	} {
		_, err := parse(t, template).RenderAt(talk, func() time.Time { return time.Unix(1, 0) })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.100s: got %v, want %q", template, err, want)
		}
	}
	for template, want := range map[string]string{
		"a\n{{ 1" + strings.Repeat("+1", 10<<10) + " }}": "deep",
		"a\n{{ x | nonsense }}":                          "line 2: unsupported filter",
		"{% if x %}{{ x | random }}{% endif %}":          "line 1: unsupported filter random",
		"{% macro m(x=y|pprint) %}{% endmacro %}":        "unsupported filter pprint",
		"{% for a in b if c|urlize %}{% endfor %}":       "unsupported filter urlize",
		"{% call(x) m() %}{% endcall %}":                 "",
		"{{ x is nonsense }}":                            "unsupported test",
		"{% nonsense %}":                                 "unknown tag",
		"{% block x %}{% endblock %}":                    "unsupported tag block",
		strings.Repeat("{% if 1 %}", 65):                 "64 tags are open",
	} {
		if _, err := chat.Parse(template); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.100s: got %v, want %q", template, err, want)
		}
	}
}

// TestExpressions compares with the output of Python's Jinja.
func TestExpressions(t *testing.T) {
	for template, want := range map[string]string{
		"{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 7 % 4.0 " +
			"}}": "3 -4 2 3.5 1024 3.0",
		"{{ 1 + 2 * 3 }} {{ 'a' ~ 1 ~ none }} {{ [1] + [2] }} {{ 'ab' * 2 }} {{ [1] * 2 " +
			"}}": "7 a1 [1, 2] abab [1, 1]",
		"{{ 1 < 2 }} {{ 'a' < 'b' }} {{ 1 == 1.0 }} {{ [1, [2]] == [1, [2]] }} {{ {'a': 1} == {'a': 2} " +
			"}}": "True True True True False",
		"{{ 'a' in 'abc' }} {{ 2 in [1, 2] }} {{ 'x' not in {'x': 1} }} {{ 'role' in messages[0] " +
			"}}": "True True False True",
		"{{ '' or 'x' }} {{ 'x' and 'y' }} {{ not [] }} {{ none is none }} {{ nothing is defined " +
			"}}": "x y True True False",
		"{{ 'abcdef'[1:3] }} {{ 'abcdef'[::-1] }} {{ 'äöü'[1] }} {{ 'abc'[-1] }} {{ [1,2,3,4][::2] }} {{ " +
			"[1,2,3][5:] }} {{ 'äöü'[1:] }}": "bc fedcba ö c [1, 3] [] öü",
		"{{ ' x '.strip() }}|{{ 'xaax'.strip('x') }}|{{ 'a b  c'.split() }}|{{ 'a,b,c'.split(',', 1) }}|{{ " +
			"'a,b,c'.rsplit(',', 1) }}": "x|aa|['a', 'b', 'c']|['a', 'b,c']|['a,b', 'c']",
		"{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(['x', 'c']) }} {{ 'abcb'.find('b') }} {{ 'abcb'.rfind('b') " +
			"}} {{ 'aXbX'.replace('X', '-', 1) }}": "True True 1 3 a-bX",
		"{{ 'hello world' | title }} {{ 'HELLO' | capitalize }} {{ 'x' | upper }} {{ ['a', 'b'] | join(', ') }} {{ " +
			"'ab' | length }}": "Hello World Hello X a, b 2",
		"{{ '{} and {1} {x} {{}}'.format('a', 'b', x='c') }} {{ 'a'.join(['1', '2']) }} {{ 'a-b-c'.partition('-') " +
			"}}": "a and b c {} 1a2 ['a', '-', 'b-c']",
		"{{ [3, 1, 2] | sort }} {{ ['b', 'A'] | sort }} {{ [1, 1, 2] | unique | list }} {{ [1, 2] | sum }} {{ [1, " +
			"3, 2] | max }} {{ [1, 3, 2] | min }}": "[1, 2, 3] ['A', 'b'] [1, 2] 3 3 1",
		"{{ messages | map(attribute='role') | list }} {{ messages | selectattr('role', 'equalto', 'user') | " +
			"map(attribute='content') | first }}": "['system', 'user'] Hi",
		"{{ messages | rejectattr('role', 'eq', 'system') | list | length }} {{ [1, 2, 3] | select('odd') | list }} " +
			"{{ [0, 1] | reject | list }}": "1 [1, 3] [0]",
		"{{ [1, 2, 3] | batch(2) | list }} {{ [1, 2, 3] | slice(2) | list }} {{ {'b': 1, 'a': 2} | dictsort }} {{ " +
			"[1, 2] | reverse | list }}": "[[1, 2], [3]] [[1, 2], [3]] [['a', 2], ['b', 1]] [2, 1]",
		"{{ 'a\nb' | indent(2) }}|{{ 'x' | center(5) }}|{{ '3' | int + 1 }}|{{ '2.5' | float }}|{{ 2.567 | round(1) " +
			"}}|{{ none | default('d') }}": "a\n  b|  x  |4|2.5|2.6|d",
		"{{ {'a': none, 'b': [true, 1.5, 'x']} }} {{ {'a': 1}.get('b', 2) }} {{ {'a': 1}.items() | list }} {{ '<' | " +
			"e }}": "{'a': None, 'b': [True, 1.5, 'x']} 2 [['a', 1]] &lt;",
		"{% set ns = namespace(n=0) %}{% for i in [1, 2] %}{% set ns.n = ns.n + i %}{% set out = i %}{% endfor %}{{ " +
			"ns.n }}{{ out is defined }}": "3False",
		"{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}{{ v }}{{ loop.cycle('x', 'y') }}{% else %}none{% endfor " +
			"%}{% for x in [] %}{% else %}none{% endfor %}": "a1xb2ynone",
		"{% for x in [1, 2, 3] if x != 2 %}{{ loop.index }}/{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem " +
			"}};{% endfor %}": "1/23;2/21;",
		"{% for x in [[1, [2]], 3] recursive %}{% if x is iterable %}({{ loop(x) }}){% else %}{{ x }}{% endif %}{% " +
			"endfor %}": "(1(2))3",
		"{% macro m(a, b=2, *args, **kw) %}{{ a }}{{ b }}{{ args }}{{ kw }}{% endmacro %}{{ m(1) }}{{ m(1, 3, 4, " +
			"c=5) }}{{ m(b=1, a=0) }}": "12[]{}13[4]{'c': 5}01[]{}",
		"{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}x{% endcall %}{% filter upper %}a{% endfilter " +
			"%}{% with a=1 %}{{ a }}{% endwith %}": "<x>A1",
		"{% set x %}a{{ 1 }}{% endset %}{{ x }}{% raw %}{{ x }}{% endraw %}{# no #}{{ 'a' if 1 else 'b' }}{% set y " +
			"= 1 if false else 2 %}{{ y }}": "a1{{ x }}a2",
		"{% set l = [] %}{% do l.append(1) %}{% set _ = l.append(2) %}{{ l }}{% set j = joiner() %}{{ j() }}{{ j() " +
			"}}": "[1, 2], ",
	} {
		if got, err := parse(t, template).Render(talk, true); got != want || err != nil {
			t.Errorf("%s:\n got %q, %v\nwant %q", template, got, err, want)
		}
	}
}
