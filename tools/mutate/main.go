// Command mutate checks a test by breaking the code that the test should cover (mutation testing).
// A seed selects the changes. mutate makes one change at a time and runs the test. If the test
// still passes, the change has survived: the test does not cover the behavior that it breaks.
//
//	go run ./tools/mutate -seed 1 -n 60 -in core/session,core/replica -- -run TestSeeds ./testkit/dst
//
// The arguments after -- are those of `go test`. The files themselves are not changed.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	seed := flag.Uint64("seed", 1, "`seed` that picks the changes")
	count := flag.Int("n", 20, "`number` of changes that compile")
	in := flag.String("in", "", "comma-separated `folders` whose files are changed, without their tests")
	timeout := flag.Duration("timeout", 2*time.Minute, "`time` after which a run counts as failed")
	list := flag.Bool("list", false, "list the changes and run nothing")
	flag.Parse()
	if *in == "" || flag.NArg() == 0 && !*list {
		fmt.Fprintln(os.Stderr, "mutate: name folders with -in, and the arguments of go test after --; see -help")
		os.Exit(2)
	}
	if err := run(*seed, *count, strings.Split(*in, ","), flag.Args(), *timeout, *list); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(seed uint64, count int, folders, args []string, timeout time.Duration, list bool) error {
	all, err := changesIn(folders)
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	survived, tried := 0, 0
	for _, c := range all {
		if tried == count {
			break
		}
		if list {
			tried++
			fmt.Println(c)
			continue
		}
		began := time.Now()
		outcome, detail, err := try(c, args, timeout)
		if err != nil {
			return err
		}
		if outcome == broken {
			continue
		}
		tried++
		if outcome == survives {
			survived++
		}
		fmt.Printf("%3d %-8s %5.1fs  %s%s\n", tried, outcome, time.Since(began).Seconds(), c, detail)
	}
	fmt.Printf("%d changes out of %d possible ones, %d survived\n", tried, len(all), survived)
	return nil
}

// outcome is the outcome of a test with a change.
type outcome string

const (
	broken   outcome = "broken" // the change does not compile
	caught   outcome = "caught"
	survives outcome = "SURVIVED"
)

// try runs go test with a changed file.
func try(c change, args []string, timeout time.Duration) (o outcome, detail string, err error) {
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return "", "", err
	}
	defer os.RemoveAll(dir)
	changed, err := c.apply()
	if err != nil {
		return "", "", err
	}
	file := filepath.Join(dir, "changed.go")
	path, err := filepath.Abs(c.path)
	if err != nil {
		return "", "", err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {path: file}})
	if err != nil {
		return "", "", err
	}
	overlayFile := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, changed, 0o600); err != nil {
		return "", "", err
	}
	if err := os.WriteFile(overlayFile, overlay, 0o600); err != nil {
		return "", "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-overlay", overlayFile}, args...)...)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	switch text := string(out); {
	case strings.Contains(text, "[build failed]") || strings.Contains(text, "[setup failed]"):
		return broken, "", nil
	case ctx.Err() != nil:
		return caught, "  (it hung)", nil
	case err != nil:
		return caught, firstFailure(text), nil
	default:
		return survives, "", nil
	}
}

// firstFailure returns the first line of a failed test's output that gives a reason.
func firstFailure(out string) string {
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if strings.Contains(line, "_test.go:") || strings.HasPrefix(line, "panic:") {
			return "  <- " + line[:min(len(line), 100)]
		}
	}
	return ""
}
