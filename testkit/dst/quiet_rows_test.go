package dst_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"troupe/testkit/dst"
)

// quietFile lists the transitions that occur in runs without faults: the rows of transition tables that
// apply, each with its state. No others may, so nothing is retried, refused or lost there without a reason.
const quietFile = "testdata/quiet.txt"

// The sections of quietFile.
const (
	plain    = "Without commands of operators."
	commands = "Only with commands of operators."
	rarely   = "Only with some seeds, without commands of operators."
	rarelyBy = "Only with some seeds, and with commands of operators."
)

// quietRows are the transitions that occur in runs without faults.
type quietRows struct {
	head    string
	known   map[string]string // section by row
	reached map[string]string // section by row, in these runs
}

// suiteSeeds is the number of seeds of TestQuiet whose runs reach all rows that are not reached only by
// some seeds.
const suiteSeeds = 9

func readQuiet(t *testing.T) *quietRows {
	head, sections, err := readSections(quietFile)
	if err != nil {
		t.Fatal(err)
	}
	q := &quietRows{head: head, known: make(map[string]string), reached: make(map[string]string)}
	for _, s := range sections {
		for _, row := range s.names {
			if q.known[row] != "" {
				t.Fatalf("%s lists %q twice", quietFile, row)
			}
			q.known[row] = s.reason
		}
	}
	return q
}

// add adds a run, and returns the rows that it must not reach.
func (q *quietRows) add(rows []string, operated, early bool) (wrong []string) {
	for _, row := range rows {
		section, before := rarely, q.reached[row]
		switch {
		case operated && early:
			section = commands
		case operated:
			section = rarelyBy
		case early:
			section = plain
		}
		known := q.known[row]
		if known == "" || !operated && (known == commands || known == rarelyBy) {
			wrong = append(wrong, row)
		}
		q.reached[row] = stricter(before, section)
	}
	return wrong
}

// stricter returns the section of a row that is reached as in two sections.
func stricter(a, b string) string {
	all := []string{plain, rarely, commands, rarelyBy}
	switch {
	case a == "":
		return b
	case slices.Contains([]string{a, b}, rarely) && slices.Contains([]string{a, b}, commands):
		return rarely
	}
	return all[min(slices.Index(all, a), slices.Index(all, b))]
}

// missing returns the rows of existing tables that the runs of the suite must reach and have not.
func (q *quietRows) missing() (all []string) {
	for row := range dst.Transitions() {
		section := q.known[row]
		if (section == plain || section == commands) && q.reached[row] == "" {
			all = append(all, row)
		}
	}
	slices.Sort(all)
	return all
}

// gone returns the rows of the file that do not exist.
func (q *quietRows) gone() (all []string) {
	exist := dst.Transitions()
	for row := range q.known {
		if !exist[row] {
			all = append(all, row)
		}
	}
	slices.Sort(all)
	return all
}

// write rewrites the file. What these runs have not reached and others have is only reached with some
// seeds.
func (q *quietRows) write() error {
	gone := q.gone()
	for row, section := range q.known {
		switch {
		case slices.Contains(gone, row):
		case q.reached[row] != "" && (section == plain || section == rarely):
			q.reached[row] = stricter(q.reached[row], rarely)
		case q.reached[row] != "":
		case section == plain || section == rarely:
			q.reached[row] = rarely
		default:
			q.reached[row] = rarelyBy
		}
	}
	var out strings.Builder
	out.WriteString(q.head + "\n")
	for _, section := range []string{plain, rarely, commands, rarelyBy} {
		var rows []string
		for row, of := range q.reached {
			if of == section {
				rows = append(rows, row)
			}
		}
		slices.Sort(rows)
		fmt.Fprintf(&out, "\n# %s\n%s\n", section, strings.Join(rows, "\n"))
	}
	return os.WriteFile(quietFile, []byte(out.String()), 0o644)
}
