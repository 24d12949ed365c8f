// Command makemodel generates model folders: variants of the shipped model that have their own
// outputs, or models of any size with random weights.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/alecthomas/kong"

	"troupe/core/units"
	"troupe/cuda"
	"troupe/testkit/models"
)

var args struct {
	Out   string `arg:"" help:"Folder in which to create the model folders."`
	Base  string `default:"models/kjv-2m" help:"Model to vary, and whose tokenizer to use (default: ${default})."`
	Count int    `default:"1" help:"Number of models (default: ${default})."`
	Seed  uint64 `default:"1" help:"Seed of the first model; the next ones follow (default: ${default})."`
	Size  string `help:"Random weights of this size instead of a variant, e.g. 500MB."`
	DType string `name:"dtype" enum:"F32,F16,BF16" default:"BF16" help:"Type of random weights (default: ${default})."`
}

func main() {
	kong.Parse(&args, kong.Name("makemodel"), kong.Description("Generates distinct models for tests and measurements."))
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "makemodel:", err)
		os.Exit(1)
	}
}

func run() error {
	var size int64
	if args.Size != "" {
		var err error
		if size, err = units.ParseBytes(args.Size); err != nil {
			return fmt.Errorf("--size: %w", err)
		}
	}
	dtype := map[string]cuda.DType{"F32": cuda.F32, "F16": cuda.F16, "BF16": cuda.BF16}[args.DType]
	for seed := args.Seed; seed < args.Seed+uint64(args.Count); seed++ {
		dir := filepath.Join(args.Out, fmt.Sprintf("model-%d", seed))
		if _, err := os.Stat(dir); err == nil {
			return fmt.Errorf("%s exists already", dir)
		}
		var err error
		if args.Size != "" {
			err = models.Random(args.Base, dir, size, dtype, seed)
		} else {
			err = models.Perturb(args.Base, dir, seed)
		}
		if err != nil {
			return err
		}
		fmt.Println(dir)
	}
	return nil
}
