package troupe

import (
	"go/ast"
	"go/parser"
	"go/token"
	"net/url"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

var (
	markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading      = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	notInAnchor  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	testName     = regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9]*\b`)
	testRun      = regexp.MustCompile(`\^((?:Test|Fuzz|Benchmark)\w+)\$`)
	testFunc     = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)[A-Za-z0-9]+)\(`)
	findSection  = regexp.MustCompile(`(?ms)^## Where to find it$(.*?)(?:^## |\z)`)
	goFile       = regexp.MustCompile(`^[a-z0-9_/]+/[a-z0-9_]+\.go$`)
	identifier   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*$`)
)

// TestLinks checks that the relative links of all pages lead to a file, and to a heading where they name one.
func TestLinks(t *testing.T) {
	for _, page := range trackedFiles(t, ".md") {
		for _, link := range markdownLink.FindAllStringSubmatch(withoutCode(readText(t, page)), -1) {
			to, err := url.Parse(link[1])
			if err != nil || to.Scheme != "" {
				continue
			}
			target := page
			if to.Path != "" {
				target = path.Join(path.Dir(page), to.Path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: link to %s, which does not exist", page, link[1])
				continue
			}
			if to.Fragment != "" && !anchors(t, target)[to.Fragment] {
				t.Errorf("%s: link to %s, but %s has no such heading", page, link[1], target)
			}
		}
	}
}

// TestNamedTests checks that the tests that pages, the Makefile and commands name exist.
func TestNamedTests(t *testing.T) {
	known := make(map[string]bool)
	for _, file := range trackedFiles(t, "_test.go") {
		for _, f := range testFunc.FindAllStringSubmatch(readText(t, file), -1) {
			known[f[1]] = true
		}
	}
	for _, page := range trackedFiles(t, ".md") {
		for _, name := range testName.FindAllString(readText(t, page), -1) {
			if !known[name] {
				t.Errorf("%s names %s, which does not exist", page, name)
			}
		}
	}
	for _, file := range append(trackedFiles(t, ".go"), "Makefile") {
		for _, run := range testRun.FindAllStringSubmatch(readText(t, file), -1) {
			if !known[run[1]] {
				t.Errorf("%s runs %s, which does not exist", file, run[1])
			}
		}
	}
}

// TestNamedFiles checks that the folders and files that docs/architecture.md names exist, and that
// each function named after a file is declared in that file.
func TestNamedFiles(t *testing.T) {
	section := findSection.FindString(readText(t, "docs/architecture.md"))
	checked := 0
	for line := range strings.SplitSeq(section, "\n") {
		var file string
		var declared map[string]bool
		for _, span := range codeSpan.FindAllString(line, -1) {
			name := strings.Trim(span, "`")
			switch info, err := os.Stat(name); {
			case goFile.MatchString(name) && err != nil:
				t.Errorf("%s does not exist", name)
				file, declared = name, nil
			case goFile.MatchString(name):
				file, declared = name, declaredFunctions(t, name)
			case err == nil && info.IsDir():
				file = ""
			case strings.Contains(name, "/"):
				t.Errorf("folder %s does not exist", name)
			case file == "" && identifier.MatchString(name):
				t.Errorf("%s is neither a folder nor behind the file that declares it", name)
			case file != "":
				if checked++; declared != nil && !declared[name] {
					t.Errorf("%s declares no function %s", file, name)
				}
			}
		}
	}
	if checked == 0 {
		t.Error("the section names no function")
	}
}

// declaredFunctions returns the names of the functions and methods that a file declares.
func declaredFunctions(t *testing.T, file string) map[string]bool {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	for _, decl := range parsed.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok {
			names[f.Name.Name] = true
		}
	}
	return names
}

// anchors returns the fragments under which the headings of a page can be linked to.
func anchors(t *testing.T, page string) map[string]bool {
	t.Helper()
	found := make(map[string]bool)
	for _, h := range heading.FindAllStringSubmatch(readText(t, page), -1) {
		text := notInAnchor.ReplaceAllString(strings.ToLower(strings.TrimSpace(h[1])), "")
		found[strings.ReplaceAll(text, " ", "-")] = true
	}
	return found
}

// withoutCode removes blocks and spans of code from Markdown.
func withoutCode(text string) string {
	var kept []string
	for line := range strings.SplitSeq(text, "\n") {
		if !strings.HasPrefix(line, "    ") {
			kept = append(kept, codeSpan.ReplaceAllString(line, "``"))
		}
	}
	return strings.Join(kept, "\n")
}

// trackedFiles returns the files of the repository whose names end in suffix.
func trackedFiles(t *testing.T, suffix string) (names []string) {
	t.Helper()
	for _, name := range repositoryFiles(t) {
		if strings.HasSuffix(name, suffix) {
			names = append(names, name)
		}
	}
	return names
}
