// Command chaos lets faults happen to a cluster of three real nodes under load, for some minutes, by a schedule that a seed decides. Its exit
// status is 1 when a stream was not exact, the cluster did not recover, or something was left behind.
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
	Minutes float64        `default:"5"  help:"How long (default: ${default})."`
	Seed    uint64         `             help:"Decides the faults and their order; odd: with an external nats-server (default: the time)."`
	Clients int            `default:"24" help:"Streams at once (default: ${default})."`
	Nodes   int            `default:"3"  help:"Nodes (default: ${default})."`
	Kinds   []cluster.Kind `             help:"Only these faults, such as kill,stop (default: all that are possible here)."                     placeholder:"KIND"`
	Keep    string         `             help:"Keep data and logs in this folder (default: a temporary one, which stays only after a failure)." placeholder:"DIR"`
}

func main() {
	var c command
	kong.Parse(&c, kong.Name("chaos"), kong.Description("Faults, by a seed, on a cluster under load."))
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
			"chaos: %v\n\nSame faults again: make chaos SEED=%d MINUTES=%g\nData and logs are kept in %s; each "+
				"node's last log ends with the stacks of its goroutines\n",
			err, c.Seed, c.Minutes, dir,
		)
		return 1
	}
	if c.Keep == "" {
		_ = os.RemoveAll(dir) // a temporary folder
	}
	return 0
}

// folder is a new one for data and logs.
func (c command) folder() (string, error) {
	if c.Keep == "" {
		return os.MkdirTemp("", "troupe-chaos-")
	}
	return c.Keep, os.Mkdir(c.Keep, 0o755)
}
