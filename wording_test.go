package troupe

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// maxColumns is the longest permitted line. A tab counts as four columns.
const maxColumns = 120

// wordings are phrases that comments, messages and docs must not contain, with the remedy.
var wordings = []struct {
	phrase *regexp.Regexp
	remedy string
}{
	{phrase(`whoever|whomever`), `name the caller, the client, the operator`},
	{phrase(`nobody|no one|somebody`), `name what has no reader, owner or caller`},
	{phrase(`can not`), `"cannot"`},
	{phrase(`anew`), `"again"`},
	{phrase(`(is|are|was|were|be) told`), `"receives", "is notified of", "learns"`},
	{phrase(`that which|those which|what there is`), `name the thing`},
	{phrase(`any more`), `"no longer"`},
	{phrase(`for ever`), `"forever", or the missing bound`},
	{phrase(`by (whose|whom)|from whom|to whom|whose word`), `name the thing`},
	{
		phrase(`has (it|them|all|its \w+|the \w+) (copied|sent|told|done|made|written|closed|stopped)`),
		`"copies it", "requests a copy of it"`,
	},
}

// bannedNames maps words that were replaced to today's terms. They are banned as parts of
// identifiers and file names, in comments, messages and docs. A word in camel case is banned only
// as an entire identifier.
var bannedNames = map[string]string{
	"acquaint": "query", "acquainted": "reported", "retrace": "requery",
	"ascent": "restore", "ascents": "restores", "descent": "demotion", "descents": "demotions",
	"bury": "delete", "reap": "expire", "reaps": "expires", "hurry": "renew now",
	"clash": "conflict", "crowded": "out of memory",
	"climb": "restore", "climbs": "restores", "climbing": "restoring",
	"condemn": "quarantine", "condemned": "quarantined", "condemns": "quarantines",
	"depose": "fence", "deposed": "fenced", "deposes": "fences",
	"desk": "pin client", "desks": "pin clients",
	"evacuate": "demote", "evacuating": "demoting", "vacate": "reassign", "vacating": "reassigning",
	"expel": "drop", "expels": "drops",
	"goOn": "unhold", "seekOn": "wakeWaiters", "stoodStill": "creditStall", "hangUp": "lingerClose",
	"heir": "new owner", "heirs": "new owners", "homeless": "unplaced",
	"inlet": "transfer sink", "inlets": "transfer sinks",
	"knock": "dial retry", "knocks": "dial retries", "poke": "wake", "pokes": "wakes",
	"mute": "silent", "outwaited": "timed out", "ripe": "ready", "sorry": "",
	"reign": "term or leadership", "reigns": "terms or leads",
	"roster": "peers", "rosters": "peers",
	"shun": "avoid", "shunned": "avoided", "shuns": "avoids",
	"strays": "orphans", "unsaid": "pending", "untold": "pending",
}

// TestWording checks the words of names, comments, messages and docs, and the length of lines.
func TestWording(t *testing.T) {
	for _, name := range repositoryFiles(t) {
		for _, f := range check(name, readText(t, name)) {
			t.Error(f)
		}
	}
}

// TestWordingFinds checks that each rule finds what it bans, and only that.
func TestWordingFinds(t *testing.T) {
	long := strings.Repeat("x", maxColumns-3)
	for _, c := range []struct {
		name, text string
		want       string // line and part of the finding; empty if the text complies
	}{
		{"f.md", "Whoever asks gets an answer", `1: "Whoever"`},
		{"f.md", "the caller cannot wait", ""},
		{"f.md", "a\nb can not wait", `2: "can not"`},
		{"f.md", "the foreigner sees a stale term", ""},
		{"f.md", "`can not`", ""},
		{"f.md", "```\nplaced anew\n```", ""},
		{"f.proto", "// copies are told", `1: "are told"`},
		{"f.go", "package p\n\n// f is\n// told.\nfunc f() {}\n", `3: "is\ntold"`},
		{"f.go", "package p\n\nvar x = \"placed anew\"\n", `3: "anew"`},
		{"f.go", "package p\n\nvar HomelessStage = 1\n", `3: "homeless"`},
		{"f.go", "package p\n\nfunc f(gpuDesk int) {}\n", `3: "desk"`},
		{"f.go", "package p\n\nfunc goOn() {}\n", `3: "goOn"`},
		{"f.go", "package p\n\n// f lets it go on.\nfunc f() {}\n", ""},
		{"f.go", "package p\n\nvar x = pb.Reign{Reign: 1}\n", ""},
		{"a/climb.go", "package climb\n", `1: "climb"`},
		{"f.go", "package p\n\n// " + long + "\n", ""},
		{"f.go", "package p\n\n// " + long + "x\n", `3: 121 columns`},
		{"f.md", "| " + long + long + " |", ""},
	} {
		got := strings.Join(check(c.name, c.text), "; ")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s %q: found %q, want %q", c.name, c.text, got, c.want)
		}
	}
}

// check returns what breaks the rules in a file.
func check(name, text string) []string {
	f := &findings{name: name}
	f.names(1, name)
	switch path.Ext(name) {
	case ".go":
		f.goFile(text)
	case ".md":
		f.markdown(text)
	default:
		f.prose(1, text)
	}
	f.longLines(text)
	return f.found
}

// findings collects what breaks the rules in one file.
type findings struct {
	name  string
	found []string
}

func (f *findings) add(line int, format string, v ...any) {
	text := fmt.Sprintf("%s:%d: %s", f.name, line, fmt.Sprintf(format, v...))
	if !slices.Contains(f.found, text) {
		f.found = append(f.found, text)
	}
}

// goFile checks the comments, the strings and the declared names of a Go file.
func (f *findings) goFile(text string) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, f.name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		f.add(1, "%v", err)
		return
	}
	line := func(n ast.Node) int { return files.Position(n.Pos()).Line }
	for _, group := range file.Comments {
		var lines []string
		for _, c := range group.List {
			lines = append(lines, strings.TrimSpace(strings.TrimPrefix(c.Text, "//")))
		}
		f.prose(line(group), strings.Join(lines, "\n"))
	}
	used := make(map[*ast.Ident]bool) // names that are declared elsewhere
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			used[n.Sel] = true
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok {
				used[key] = true
			}
		case *ast.Ident:
			if !used[n] {
				f.names(line(n), n.Name)
			}
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				f.prose(line(n), n.Value)
			}
		}
		return true
	})
}

// markdown checks a text without its code.
func (f *findings) markdown(text string) {
	fenced := false
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if fence {
			fenced = !fenced
		}
		if fence || fenced || strings.HasPrefix(line, "    ") {
			line = ""
		}
		lines = append(lines, codeSpan.ReplaceAllString(line, "``"))
	}
	f.prose(1, strings.Join(lines, "\n"))
}

var codeSpan = regexp.MustCompile("`[^`\n]*`")

// prose checks a text that begins at a line.
func (f *findings) prose(line int, text string) {
	for _, w := range wordings {
		for _, at := range w.phrase.FindAllStringIndex(text, -1) {
			f.add(line+strings.Count(text[:at[0]], "\n"), "%q: write %s", text[at[0]:at[1]], w.remedy)
		}
	}
	for i, words := range strings.Split(text, "\n") {
		f.names(line+i, words)
	}
}

// names checks each identifier and word of a text for banned names.
func (f *findings) names(line int, text string) {
	isSeparator := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	for _, word := range strings.FieldsFunc(text, isSeparator) {
		parts := strings.Fields(camelBreak.ReplaceAllString(acronymBreak.ReplaceAllString(word, "$1 $2"), "$1 $2"))
		for i, part := range parts {
			parts[i] = strings.ToLower(part)
		}
		for _, name := range append(parts, word) {
			if today, banned := bannedNames[name]; banned {
				f.add(line, "%q: the term is %q", name, today)
			}
		}
	}
}

var (
	camelBreak   = regexp.MustCompile(`([a-z0-9])([A-Z])`)
	acronymBreak = regexp.MustCompile(`([A-Z])([A-Z][a-z])`)
)

// longLines finds lines over maxColumns. Tables, code and links of Markdown cannot be broken.
func (f *findings) longLines(text string) {
	for i, line := range strings.Split(text, "\n") {
		columns := utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    "))
		fixed := strings.HasPrefix(line, "|") || strings.HasPrefix(line, "    ") || strings.Contains(line, "](")
		if columns > maxColumns && (path.Ext(f.name) != ".md" || !fixed) {
			f.add(i+1, "%d columns, at most %d", columns, maxColumns)
		}
	}
}

// phrase matches words in a text, also across line breaks.
func phrase(expression string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(` + strings.ReplaceAll(expression, " ", `\s+`) + `)\b`)
}

// repositoryFiles lists the files to check. It leaves out generated code, test data, decision
// records, which keep the words of their time, and this file.
func repositoryFiles(t *testing.T) (names []string) {
	t.Helper()
	out, err := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		t.Skipf("not a git checkout: %v", err)
	}
	for name := range strings.SplitSeq(string(out), "\x00") {
		switch {
		case strings.HasSuffix(name, ".pb.go"), strings.Contains(name, "testdata/"):
		case strings.HasPrefix(name, "docs/adr/"), name == "wording_test.go":
		case slices.Contains([]string{".go", ".md", ".proto"}, path.Ext(name)), name == "Makefile":
			if _, err := os.Stat(name); err == nil {
				names = append(names, name)
			}
		}
	}
	return names
}

func readText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
