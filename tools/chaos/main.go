// Command chaos injects faults into a cluster of three real nodes under load for some minutes. A
// seed determines the schedule. The exit status is 1 if a stream was not exact, the cluster did not
// recover, or something was left behind.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/alecthomas/kong"

	"troupe/testkit/chaos"
	"troupe/testkit/cluster"
)

type command struct {
	Minutes float64        `default:"5"  help:"Duration of the run (default: ${default})."`
	Seed    uint64         `             help:"Seed of the schedule; odd: external nats-server (default: the time)."`
	Clients int            `default:"24" help:"Concurrent streams (default: ${default})."`
	Nodes   int            `default:"3"  help:"Number of nodes (default: ${default})."`
	Kinds   []cluster.Kind `help:"Only these faults, e.g. kill,stop (default: all possible here)." placeholder:"KIND"`
	Keep    string         `help:"Folder for data and logs (default: temporary, kept on failure)." placeholder:"DIR"`
}

func main() {
	var c command
	kong.Parse(&c, kong.Name("chaos"), kong.Description("Injects faults into a cluster under load, from a seed."))
	os.Exit(c.run())
}

func (c command) run() int {
	if c.Seed == 0 {
		c.Seed = uint64(time.Now().Unix())
	}
	dir, err := c.folder()
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		return 1
	}
	defer cluster.RemoveBinaries()
	if err := cluster.Build(); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	fmt.Printf("seed %d, data and logs in %s\n", c.Seed, dir)
	if err := chaos.Run(ctx, chaos.Config{
		Dir: dir, Seed: c.Seed, Length: time.Duration(c.Minutes * float64(time.Minute)), Nodes: c.Nodes,
		Clients: c.Clients, Kinds: c.Kinds,
		Print: func(line string) { fmt.Println(line) },
	}); err != nil {
		fmt.Fprintf(
			os.Stderr,
			"chaos: %v\n\nTo repeat these faults: make chaos SEED=%d MINUTES=%g\nData and logs are in %s; each "+
				"node's last log ends with the stacks of its goroutines\n",
			err, c.Seed, c.Minutes, dir,
		)
		return 1
	}
	if c.Keep == "" {
		_ = os.RemoveAll(dir) // the temporary folder
	}
	return 0
}

// folder creates the folder for data and logs.
func (c command) folder() (string, error) {
	if c.Keep == "" {
		return os.MkdirTemp("", "troupe-chaos-")
	}
	return c.Keep, os.Mkdir(c.Keep, 0o755)
}
