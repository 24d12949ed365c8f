package chat_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"troupe/modelfile/chat"
)

// bombs are templates that would use up all memory, all of the stack or much time.
var bombs = map[string]string{
	"none":                      "{{ messages }}", // the baseline of the test itself
	"a namespace in itself":     "{% set ns = namespace(a=1) %}{% set ns.a = ns %}{{ ns }}",
	"a cycle of two namespaces": "{% set a = namespace() %}{% set b = namespace(a=a) %}{% set a.b = b %}{{ a }}",
	"a cycle through a list":    "{% set a = namespace() %}{% set a.l = [a] %}{{ a.l }}",
	"a cycle to JSON":           "{% set a = namespace() %}{% set a.l = [a] %}{{ a | tojson }}",
	"a cycle compared": "{% set a = namespace() %}{% set a.l = [a] %}{% set b = namespace() %}{% set b.l " +
		"= [b] %}{{ a == b }}",
	"a cycle searched": "{% set a = namespace() %}{% set a.l = [a] %}{% set b = namespace() %}{% set b.l " +
		"= [b] %}{{ a in [b] }}",
	"a cycle that is sorted": "{% set a = namespace() %}{% set a.l = [a] %}{{ [a, a] | sort }}",
	"a cycle that is unique": "{% set a = namespace() %}{% set a.l = [a] %}{% set b = namespace() %}{% set b.l " +
		"= [b] %}{{ [a, b] | unique | list }}",
	"a cycle that is joined": "{% set a = namespace() %}{% set a.l = [a] %}{{ [a, a] | join }}",
	"a cycle by its method":  "{% set a = namespace() %}{% set a.l = [a] %}{{ a.items() | list }}",
	"a list in itself":       "{% set l = [] %}{% do l.append([l]) %}{{ l }}",
	"a value of many levels": "{% set ns = namespace(l=[]) %}{% for i in range(100000) %}{% set ns.l = [ns.l] " +
		"%}{% endfor %}{{ ns.l }}",
	"a value of few, often": "{% set ns = namespace(l=[1]) %}{% for i in range(100) %}{% set ns.l = [ns.l, " +
		"ns.l] %}{% endfor %}{{ ns.l }}",
	"such values compared": "{% set ns = namespace(l=[1], m=[1]) %}{% for i in range(100) %}{% set ns.l = " +
		"[ns.l, ns.l] %}{% set ns.m = [ns.m, ns.m] %}{% endfor %}{{ ns.l == ns.m }}",
	"a string many times": "{{ 'x' * 10000000000 }}",
	"many times a string": "{{ 10000000000 * 'x' }}",
	"a string doubled": "{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = ns.s * 2 " +
		"%}{% endfor %}",
	"a string to itself": "{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = ns.s + " +
		"ns.s %}{% endfor %}",
	"a string joined to itself": "{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = ns.s ~ " +
		"ns.s %}{% endfor %}",
	"many long strings": "{% set ns = namespace(l=[]) %}{% for i in range(10000) %}{% set ns.l = ns.l + " +
		"['x' * 10000000] %}{% endfor %}",
	"many long strings appended": "{% set l = [] %}{% for i in range(10000) %}{% do l.append('x' * 10000000) %}{% " +
		"endfor %}",
	"a list doubled": "{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = ns.l + " +
		"ns.l %}{% endfor %}",
	"a list many times":        "{{ ([1] * 10000000000) | length }}",
	"an empty list many times": "{{ ([] * 9000000000000000000) | length }}",
	"replace":                  "{% set s = 'x' * 10000000 %}{{ s | replace('x', s) }}",
	"replace nothing":          "{% set s = 'x' * 1000000 %}{{ s.replace('', s) }}",
	"replace again": "{% set ns = namespace(s='xx') %}{% for i in range(60) %}{% set ns.s = " +
		"ns.s.replace('x', ns.s) %}{% endfor %}",
	"center":                      "{{ 'x' | center(100000000000) }}",
	"center by a method":          "{{ 'x'.center(100000000000) }}",
	"ljust and rjust":             "{{ 'x'.ljust(100000000000, 'yy') }}{{ 'x'.rjust(100000000000) }}",
	"indent":                      "{% set s = '\\n' * 1000000 %}{{ s | indent(1000000, true, true) }}",
	"indent by a string":          "{% set s = 'x\\n' * 1000000 %}{{ s | indent(s) }}",
	"an endless indent":           "{{ 'x' | indent(100000000000, true) }}",
	"join":                        "{% set s = 'x' * 1000000 %}{{ range(100000) | join(s) }}",
	"join by a method":            "{% set s = 'x' * 1000000 %}{{ s.join(range(100000)) }}",
	"escape":                      "{% set s = '<' * 16000000 %}{{ s | e }}",
	"upper":                       "{% set s = 'ı' * 8000000 %}{{ s | upper }}",
	"format":                      "{% set s = 'x' * 1000000 %}{{ ('{0}' * 1000000).format(s) }}",
	"wordwrap":                    "{{ ('x' * 10000000) | wordwrap(1) }}",
	"batch":                       "{{ [1] | batch(100000000000, 'x') | list }}",
	"batches":                     "{{ range(100000) | batch(1000000, 'x') | list }}",
	"slice":                       "{{ [1] | slice(100000000000) | list }}",
	"a list of characters":        "{{ ('x' * 16000000) | list | length }}",
	"characters sliced":           "{% for i in range(100000) %}{{ ('x' * 10000000)[i:i+1:2] }}{% endfor %}",
	"split":                       "{{ ('x ' * 8000000).split(' ') | length }}",
	"splitlines":                  "{{ ('\\n' * 16000000).splitlines() | length }}",
	"a range":                     "{{ range(1000000000000) | list }}",
	"ranges":                      "{% for i in range(100000) %}{% set x = range(100000) %}{% endfor %}",
	"a range to the last integer": "{{ range(9223372036854775800, 9223372036854775807, 5) | list }}",
	"output":                      "{% set s = 'x' * 1000000 %}{% for i in range(100000) %}{{ s }}{% endfor %}",
	"output of a macro": "{% macro m() %}{% for i in range(100000) %}{{ 'x' * 1000000 }}{% endfor %}{% " +
		"endmacro %}{{ m() | length }}",
	"output of a block": "{% set s %}{% for i in range(100000) %}{{ 'x' * 1000000 }}{% endfor %}{% endset %}",
	"output of a filter block": "{% filter upper %}{% for i in range(100000) %}{{ 'x' * 1000000 }}{% endfor %}{% " +
		"endfilter %}",
	"a macro in itself":      "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}",
	"a macro in its default": "{% macro f(x=f()) %}{% endmacro %}{{ f() }}",
	"a macro by its caller": "{% macro f() %}{{ caller() }}{% endmacro %}{% macro g() %}{% call f() %}{{ g() " +
		"}}{% endcall %}{% endmacro %}{{ g() }}",
	"a macro twice in itself": "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}{{ " +
		"f(100) }}",
	"a loop in itself": "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
	"loops in loops": strings.Repeat(
		"{% for i in range(1000) %}",
		20,
	) + strings.Repeat(
		"{% endfor %}",
		20,
	),
	"a long string compared": "{% set s = 'x' * 10000000 %}{% set t = 'x' * 10000000 %}{% for i in " +
		"range(200000) %}{% if s == t %}{% endif %}{% endfor %}",
	"a long string searched": "{% set s = 'x' * 10000000 %}{% for i in range(200000) %}{% if 'y' in s %}{% " +
		"endif %}{% endfor %}",
	"a long list searched": "{% set l = range(200000) %}{% for i in l %}{% if -1 in l %}{% endif %}{% " +
		"endfor %}",
	"lists that are unique": "{% set ns = namespace(l=[]) %}{% for i in range(20000) %}{% set _ = " +
		"ns.l.append([i]) %}{% endfor %}{{ ns.l | unique | list | length }}",
	"a long list sorted": "{% set l = range(200000) %}{% for i in range(10000) %}{% set m = l | sort %}{% " +
		"endfor %}",
	"long strings sorted": "{% set s = 'x' * 1000000 %}{% set l = [s + 'a', s + 'b'] * 1000 %}{{ l | sort " +
		"| length }}",
	"big powers":            "{{ 10 ** 100000000 }}{{ 2 ** 2 ** 2 ** 2 ** 2 ** 2 ** 2 }}",
	"maps of maps":          "{{ range(100000) | map('center', 1000000) | list }}",
	"a sum of strings":      "{% set s = 'x' * 1000000 %}{{ ([s] * 100000) | sum(start='') }}",
	"a sum of lists":        "{{ ([range(1000)] * 100000) | sum(start=[]) }}",
	"a cycle of objects":    "{% set a = namespace() %}{% set a['x'] = {'y': a} %}{{ a }}{{ a | dictsort }}",
	"a long expression":     "{{ 1" + strings.Repeat("+1", 60<<10) + " }}",
	"a long path":           "{{ a" + strings.Repeat(".a", 60<<10) + " }}",
	"a long call":           "{{ a" + strings.Repeat("()", 60<<10) + " }}",
	"many filters":          "{{ ''" + strings.Repeat("|e", 60<<10) + " }}",
	"many tests":            "{{ 1" + strings.Repeat(" is odd", 17<<10) + " }}",
	"many negations":        "{{ " + strings.Repeat("not ", 30<<10) + "1 }}",
	"many brackets":         "{{ " + strings.Repeat("[", 120<<10),
	"many blocks":           strings.Repeat("{% if 1 %}", 12<<10),
	"many macros":           strings.Repeat("{% macro m() %}", 8<<10),
	"a long template":       strings.Repeat("x", 256<<10),
	"a comment without end": "{#" + strings.Repeat("{#", 60<<10),
	"a string without end":  "{{ '" + strings.Repeat("x", 120<<10),
	"strings of quotes":     strings.Repeat("{{ '", 30<<10),
	"raw without end":       strings.Repeat("{% raw %}", 12<<10),
	"a format of time":      "{{ strftime_now('%B' * 8000000) }}",
	"a cycler of much": "{% set c = cycler('x' * 10000000, 'y') %}{% for i in range(200000) %}{{ " +
		"c.next() }}{% endfor %}",
	"keyword arguments": "{% macro f(**k) %}{{ k }}{% endmacro %}{% set s = 'x' * 16000000 %}{{ f(a=s, " +
		"b=s, c=s) }}",
	"a length again and again": "{% set s = 'é' * 8000000 %}{% for i in range(200000) %}{% set n = s | length " +
		"%}{% endfor %}",
	"a character again and again": "{% set s = 'é' * 8000000 %}{% for i in range(200000) %}{% set n = s[-1] %}{% " +
		"endfor %}",
	"a strip again and again": "{% set s = ' ' * 8000000 %}{% for i in range(200000) %}{% set n = s.strip() " +
		"%}{% endfor %}",
	"JSON of much": "{% set l = ['\x01' * 1000000] * 1000 %}{{ l | tojson(indent=16) }}",
	"JSON of few levels, indented": "{% set ns = namespace(l=range(1000)) %}{% for i in range(100) %}{% set ns.l = " +
		"[ns.l] %}{% endfor %}{{ ns.l | tojson(indent=16) }}",
}

const (
	bombEnv     = "TROUPE_TEST_TEMPLATE_BOMB"
	bombMemory  = 4 << 30   // address space of the process, in bytes
	bombAllocs  = 512 << 20 // bytes that one template may allocate, including garbage
	bombTooMuch = 3
)

// TestBombs renders the bombs in a process with limited memory, which must survive.
func TestBombs(t *testing.T) {
	if os.Getenv(bombEnv) != "" {
		for name := range bombs {
			fmt.Println("bomb:", name)
			renderBomb(name)
		}
		fmt.Println("survived")
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // a process that hangs is a failure too
	defer cancel()
	cmd := exec.CommandContext(
		ctx,
		"bash",
		"-c",
		`[ -n "$LIMIT" ] && ulimit -v "$LIMIT"; exec "$0" -test.run '^TestBombs$'`,
		os.Args[0],
	)
	cmd.Env = append(
		os.Environ(),
		bombEnv+"=1",
		"GOMAXPROCS=2",
		"MALLOC_ARENA_MAX=1",
		"LIMIT="+addressSpace(bombMemory),
	)
	out, err := cmd.CombinedOutput()
	if text := string(out); err != nil || !strings.Contains(text, "survived") {
		_, last, _ := strings.Cut(text[max(strings.LastIndex(text, "bomb:"), 0):], " ")
		t.Errorf("%v: %.500s", err, last)
	}
}

// renderBomb renders a bomb and exits with an error if it allocates too much.
func renderBomb(name string) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if tmpl, err := chat.Parse(bombs[name]); err == nil {
		_, _ = tmpl.Render(talk, true) // an error is an acceptable result
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > bombAllocs {
		println("allocated", n)
		os.Exit(bombTooMuch)
	}
}

// TestCyclesAreRejected checks that a value that contains itself causes an error that names the
// cycle.
func TestCyclesAreRejected(t *testing.T) {
	for _, name := range []string{
		"a cycle of two namespaces", "a cycle through a list", "a cycle to JSON", "a cycle compared",
		"a cycle searched", "a cycle that is unique",
	} {
		if _, err := parse(t, bombs[name]).Render(talk, true); err == nil ||
			!strings.Contains(err.Error(), "contains itself") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := parse(t, bombs["a namespace in itself"]).Render(talk, true); err == nil ||
		!strings.Contains(err.Error(), "cannot contain itself") {
		t.Errorf("got %v", err)
	}
}
