package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"troupe/core/kv"
)

func main() {
	docs := flag.String("docs", "docs", "output folder")
	flag.Parse()
	err := run(*docs)
	if errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(
			os.Stderr,
			"kvreplay: skipped: the trace is not part of the project (%v); set TROUPE_SHARED to its folder\n", err,
		)
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "kvreplay:", err)
		os.Exit(1)
	}
}

func run(docs string) error {
	prompts, err := readTrace(tracePath())
	if err != nil {
		return err
	}
	r, err := measure(prompts, []int{1000, 2000, 4000, 8000, 16_000, 32_000, 64_000})
	if err != nil {
		return err
	}
	for _, slots := range []int{1024, 4096, 16_384, 65_536} {
		s, err := replayShared(prompts, slots)
		if err != nil {
			return err
		}
		r.shared = append(r.shared, s)
	}
	if err := r.draw(filepath.Join(docs, "benchmarks-kv.svg")); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(docs, "benchmarks-kv.md"), []byte(r.page()), 0o644)
}

// measure replays the prompts with the optimum and every policy, at each capacity.
func measure(prompts [][]kv.Hash, slots []int) (result, error) {
	r := result{prompts: len(prompts), slots: slots}
	distinct := make(map[kv.Hash]bool)
	for _, blocks := range prompts {
		r.blocks += len(blocks)
		for _, h := range blocks {
			distinct[h] = true
		}
	}
	r.distinct = len(distinct)
	rate := func(hits int) float64 { return float64(hits) / float64(r.blocks) }
	r.bound = rate(optimum(prompts, r.distinct))
	best := curve{name: "optimum"}
	for _, n := range slots {
		best.rates = append(best.rates, rate(optimum(prompts, n)))
	}
	r.curves = append(r.curves, best)
	for _, name := range kv.PolicyNames() {
		c := curve{name: name}
		for _, n := range slots {
			hits, err := replay(prompts, name, n)
			if err != nil {
				return result{}, err
			}
			c.rates = append(c.rates, rate(hits))
		}
		r.curves = append(r.curves, c)
	}
	return r, nil
}
