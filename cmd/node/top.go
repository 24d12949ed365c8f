package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"google.golang.org/protobuf/proto"

	"troupe/observe/top"
)

type topCommand struct {
	clusterClient
	Once bool `name:"once" xor:"how" help:"Print one frame and exit; rates are of one second."`
	JSON bool `name:"json" xor:"how" help:"Print one frame as JSON and exit."`
}

func (topCommand) Help() string {
	return `Shows nodes, GPUs, replicas and deployments, and refreshes every second. Press ? for the keys, q to quit.
A node that does not answer is red.

  REPL      replicas of the node
  SESS      sequences that clients requested from the node's gateway
  RUN       running sequences
  WAIT      queued sequences
  IN/s      prompt tokens computed per second
  OUT/s     tokens generated per second
  LIFE      incarnation of the replica: 2 after one restart
  KV        share of the KV blocks that sequences use
  HITS      share of the prompt tokens that were found in KV blocks
  LORA      adapters on the GPU
  TIME      share of the GPU's time in which the replica ran steps
  REPLICAS  serving replicas, of the requested number
  ON        node that manages the deployment

Examples:

  troupe top
  troupe top --nats nats://10.0.0.7:4222
  troupe top --once
  troupe top --json | jq '.nodes[] | select(.unreachable != "") | .member.name'`
}

// Run shows the cluster until q is pressed, or once.
func (t topCommand) Run(c console) error {
	conn, err := t.connect("troupe top")
	if err != nil {
		return err
	}
	defer conn.Close()
	ask := func(ctx context.Context, endpoint string, request, answer proto.Message) error {
		return t.request(ctx, conn, endpoint, request, answer)
	}
	if !t.Once && !t.JSON {
		_, err = tea.NewProgram(top.New(ask), tea.WithOutput(c.out)).Run()
		return err
	}
	seen, err := sampleTwice(ask)
	if err != nil {
		return err
	}
	if t.Once {
		_, err = lipgloss.Fprintln(c.out, seen.Print()) // with colors if it is a terminal
		return err
	}
	report, err := seen.Report()
	if err != nil {
		return fmt.Errorf("JSON: %w", err)
	}
	out := json.NewEncoder(c.out)
	out.SetIndent("", "  ")
	return out.Encode(report)
}

// sampleTwice takes two samples one second apart: rates are their difference.
func sampleTwice(ask top.Ask) (top.Model, error) {
	seen := top.New(ask)
	for i := range 2 {
		if i > 0 {
			time.Sleep(time.Second)
		}
		sample, err := top.Observe(context.Background(), ask)
		if err != nil {
			return seen, err
		}
		seen = seen.WithSample(sample, nil)
	}
	return seen, nil
}
