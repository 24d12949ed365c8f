// Command soak drives a cluster of two real nodes with a mix of requests, client faults and control
// changes. It samples the live heap, resident memory, goroutines and descriptors of the processes,
// and writes the samples as CSV and as a plot. The exit status is 1 if one of them grows.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/alecthomas/kong"

	"troupe/testkit/cluster"
)

type command struct {
	Length  time.Duration `default:"30m"  help:"Duration of sampling (default: ${default})."`
	WarmUp  time.Duration `default:"1m"   help:"Duration of the load before sampling (default: ${default})."`
	Every   time.Duration `default:"5s"   help:"Time between two samples (default: ${default})."`
	Clients int           `default:"6"    help:"Concurrent clients (default: ${default})."`
	Seed    uint64        `               help:"Seed of the clients' requests (default: the time)."`
	Out     string        `default:"docs" help:"Folder of soak.csv and soak.svg (default: ${default})." type:"path"`
	Keep    string        `help:"Folder for data and logs (default: temporary, kept on failure)." placeholder:"DIR"`
}

func main() {
	var c command
	kong.Parse(
		&c, kong.Name("soak"), kong.Description("Runs a long mixed load; fails if the memory of a node grows."),
	)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := c.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		stop()
		os.Exit(1)
	}
}

func (c command) run(ctx context.Context) (err error) {
	if c.Length < 4*c.Every {
		return fmt.Errorf("--length %s is fewer than 4 samples of --every %s", c.Length, c.Every)
	}
	if c.Seed == 0 {
		c.Seed = uint64(time.Now().UnixNano())
	}
	dir := c.Keep
	if dir == "" {
		if dir, err = os.MkdirTemp("", "troupe-soak-"); err != nil {
			return err
		}
		defer func() {
			if err == nil {
				_ = os.RemoveAll(dir) // the temporary folder
				return
			}
			err = fmt.Errorf("%w\ndata and logs are in %s", err, dir)
		}()
	} else if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	defer cluster.RemoveBinaries()
	if err := cluster.Build(); err != nil {
		return err
	}
	fmt.Printf("seed %d, data and logs in %s\n", c.Seed, dir)
	nodes, err := cluster.New(ctx, cluster.Config{
		Dir: dir, Nodes: 2, Devices: "host:2x256MiB",
		// The tier must be full after the warm-up, because its index grows until it is full.
		Flags: []string{"--kv-dram", "16MiB"},
	})
	if err != nil {
		return err
	}
	defer nodes.Close()
	samples, tally, err := c.soak(ctx, nodes)
	if err != nil {
		return err
	}
	fmt.Print(tally)
	if err := os.MkdirAll(c.Out, 0o755); err != nil {
		return err
	}
	if err := writeCSV(filepath.Join(c.Out, "soak.csv"), samples); err != nil {
		return err
	}
	if err := draw(filepath.Join(c.Out, "soak.svg"), samples); err != nil {
		return err
	}
	text, flat := judge(samples)
	fmt.Print(text)
	return errors.Join(flat, tally.check())
}

// soak runs the mix and returns the samples and the tally.
func (c command) soak(ctx context.Context, nodes *cluster.Cluster) ([]sample, *tally, error) {
	m := newMix(nodes, c.Seed)
	if err := m.prepare(ctx); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := m.start(ctx, c.Clients)
	defer func() {
		cancel()
		<-done
	}()
	fmt.Printf("warming up for %s, then sampling for %s\n", c.WarmUp, c.Length)
	if err := pause(ctx, c.WarmUp); err != nil {
		return nil, nil, err
	}
	samples, err := sampleNodes(ctx, nodes.Nodes, c.Length, c.Every)
	return samples, m.tally, err
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
