package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const output = `ok  	troupe/core/kv	0.190s
--- FAIL: TestA (1.00s)
    a_test.go:1: no
--- FAIL: TestB (1.00s)
    --- FAIL: TestB/with_nvme (0.50s)
FAIL
FAIL	troupe/node	3.000s
ok  	troupe/core/tier	0.190s
# troupe/core/lora
core/lora/a.go:1:1: expected 'package'
FAIL	troupe/core/lora [build failed]
panic: test timed out after 1s
FAIL	troupe/cmd/node	1.000s
FAIL
`

// TestFailures checks which failures are found in the output of go test.
func TestFailures(t *testing.T) {
	got, err := failures(strings.NewReader(output))
	want := []string{"troupe/cmd/node", "troupe/core/lora", "troupe/node.TestA", "troupe/node.TestB/with_nvme"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}

// TestRepeat runs a command that fails every second time, and checks the results and the table.
func TestRepeat(t *testing.T) {
	dir := t.TempDir()
	script := `if rm ` + filepath.Join(dir, "once") + ` 2>/dev/null
then echo "--- FAIL: TestA (0.00s)"; printf 'FAIL\ttroupe/node\t1s\n'; exit 1
else touch ` + filepath.Join(dir, "once") + `; fi`
	all, err := repeat(t.Context(), 4, filepath.Join(dir, "logs"), []string{"sh", "-c", script})
	if err != nil || len(all) != 4 || failed(all) != 2 {
		t.Fatalf("%v, %v", all, err)
	}
	for i, r := range all {
		_, err := os.Stat(filepath.Join(dir, "logs", string(rune('1'+i))+".log"))
		if second := i%2 == 1; r.busy != second || r.failed != second || (err == nil) != second || r.elapsed <= 0 {
			t.Errorf("run %d: %v, %v", i+1, r, err)
		}
	}
	var text strings.Builder
	table(&text, all)
	lines := strings.Fields(text.String())
	if want := "troupe/node.TestA 2 2"; !strings.Contains(strings.Join(lines, " "), want) {
		t.Errorf("no %q in %s", want, text.String())
	}
	if _, err := repeat(t.Context(), 1, dir, []string{filepath.Join(dir, "none")}); err == nil {
		t.Error("a command that does not exist")
	}
}

// TestTable checks that the table counts quiet and busy runs apart.
func TestTable(t *testing.T) {
	var text strings.Builder
	table(&text, []result{
		{elapsed: time.Minute, cpu: 3 * time.Second},
		{busy: true, elapsed: time.Hour, failed: true, failures: []string{"p.T"}},
		{elapsed: time.Second, failed: true, failures: []string{"p.T", "p.U"}},
	})
	got := strings.Join(strings.Fields(text.String()), " ")
	want := "runs passed longest most CPU quiet 2 1 1m0s 3s all cores busy 1 0 1h0m0s 0s " +
		"failed times all cores busy p.T 2 1 p.U 1 0"
	if got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}
