package troupe

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	// subjectsAfter is the last commit whose subject, and those of its ancestors, are not checked.
	subjectsAfter = "ff884b69c6308489f4b25fb9b21450a5ee8d5b6d"
	// maxSubject is the longest permitted subject of a commit.
	maxSubject = 72
)

// subjectForm is the form of CONTRIBUTING.md: "folder: imperative", in lower case, without a period.
// It permits lists of folders, and names and acronyms after the colon.
var subjectForm = regexp.MustCompile(`^[a-z0-9_./*-]+(, [a-z0-9_./*-]+)*: ([a-z]|[A-Z][A-Z0-9]).*[^.]$`)

// notImperative are first words with which no imperative begins.
var notImperative = regexp.MustCompile(`: (an?|the|that|what|which|who\w*|when|where|how|its?|th[ei]se|no(body)?) `)

// TestCommitSubjects checks the subjects of new commits. It is skipped in an archive or a shallow
// clone, which lack the history.
func TestCommitSubjects(t *testing.T) {
	if err := exec.Command("git", "merge-base", "--is-ancestor", subjectsAfter, "HEAD").Run(); err != nil {
		t.Skipf("no history since %s: %v", subjectsAfter, err)
	}
	out, err := exec.Command("git", "log", "--no-merges", "--format=%h %s", subjectsAfter+"..HEAD").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		commit, subject, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if why := badSubject(subject); why != "" {
			t.Errorf("commit %s: %q %s", commit, subject, why)
		}
	}
}

// TestBadSubject checks that the check of subjects can fail.
func TestBadSubject(t *testing.T) {
	for subject, ok := range map[string]bool{
		"core/kv: evict idle blocks before shared ones": true,
		"cluster/members, docs: use UTC in timestamps":  true,
		`Revert "core/kv: evict idle blocks"`:           true,
		"evict idle blocks":                             false,
		"core/kv: Evict idle blocks":                    false,
		"core/kv: evict idle blocks.":                   false,
		"core/kv: what is idle is evicted":              false,
		"core/kv: evict " + strings.Repeat("x", 58):     false,
	} {
		if why := badSubject(subject); (why == "") != ok {
			t.Errorf("%q: %q", subject, why)
		}
	}
}

// badSubject returns what is wrong with the subject of a commit, or "".
func badSubject(subject string) string {
	switch {
	case strings.HasPrefix(subject, `Revert "`):
		return ""
	case utf8.RuneCountInString(subject) > maxSubject:
		return "is too long; shorten it, or move a part into the body"
	case !subjectForm.MatchString(subject), notImperative.MatchString(subject):
		return `does not have the form "folder: imperative, lower case"`
	}
	return ""
}
