// Command sim runs simulations of Troupe's decisions on a timing model and writes the results to
// docs/simulations. Its figures are simulated: no device is used or measured.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/alecthomas/kong"

	"troupe/tools/sim/adapters"
)

var args struct {
	Adapters struct {
		Out    string `help:"Folder of adapters.md and its plot." default:"docs/simulations"`
		Shared string `help:"Folder with data/traces; may be missing." default:"../shared" env:"TROUPE_SHARED"`
	} `cmd:"" help:"A thousand adapters on one base model; fragmentation of their memory."`
}

func main() {
	kong.Parse(&args, kong.Description("Simulations of decisions, on a timing model."))
	trace := filepath.Join(args.Adapters.Shared, "data/traces/arena-multilora/arena27_adapters_600s.csv")
	if err := adapters.Write(args.Adapters.Out, trace); err != nil {
		fmt.Fprintln(os.Stderr, "sim:", err)
		os.Exit(1)
	}
}
