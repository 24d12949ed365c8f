package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"go/scanner"
	"go/token"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// job computes a result and keeps it.
type job struct {
	name string
	do   func() error
}

// work does the planned jobs, several at once, in their order. After an error it begins no other one.
func (s *study) work(study string) error {
	jobs := s.jobs
	s.jobs = nil
	next := make(chan job)
	var mu sync.Mutex
	var failed error
	var all sync.WaitGroup
	done, began := 0, time.Now()
	for range max(1, s.workers) {
		all.Go(func() {
			for j := range next {
				err := j.do()
				mu.Lock()
				if done++; err != nil && failed == nil {
					failed = fmt.Errorf("%s: %w", j.name, err)
				}
				left := time.Since(began) / time.Duration(done) * time.Duration(len(jobs)-done)
				slog.Info("done", "study", study, "job", j.name, "number", done, "of", len(jobs),
					"left", left.Round(time.Second))
				mu.Unlock()
			}
		})
	}
	for _, j := range jobs {
		mu.Lock()
		stop := failed != nil
		mu.Unlock()
		if stop {
			break
		}
		next <- j
	}
	close(next)
	all.Wait()
	return failed
}

// sources are the folders whose code decides the results of simulations.
var sources = []string{"core", "simulate", "workload"}

// readVersions computes the versions: digests of a scenario and of the code without its comments.
func (s *study) readVersions() error {
	code := sha256.New()
	for _, folder := range sources {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			fmt.Fprintln(code, path)
			writeTokens(code, text)
			return err
		})
		if err != nil {
			return fmt.Errorf("%w; run it in the root of the repository", err)
		}
	}
	s.versions = make(map[string]string)
	for _, name := range []string{dayScenario, slotScenario, zipfScenario} {
		text, err := os.ReadFile(s.scenarios + "/" + name + ".yaml")
		if err != nil {
			return err
		}
		sum := sha256.Sum256(code.Sum(text))
		s.versions[name] = hex.EncodeToString(sum[:6])
	}
	return nil
}

// writeTokens writes the tokens of a Go file, without comments.
func writeTokens(to io.Writer, text []byte) {
	var tokens scanner.Scanner
	tokens.Init(token.NewFileSet().AddFile("", -1, len(text)), text, nil, 0)
	for {
		_, tok, literal := tokens.Scan()
		fmt.Fprintf(to, "%s %q\n", tok, literal)
		if tok == token.EOF {
			return
		}
	}
}

// keep changes the results and writes their file.
func (s *study) keep(change func(*results)) error {
	s.results.mu.Lock()
	defer s.results.mu.Unlock()
	change(&s.results)
	return s.results.save(s.file)
}
