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
	remote
	Once bool `name:"once" xor:"how" help:"Print one frame and end; rates are of one second."`
	JSON bool `name:"json" xor:"how" help:"Print it as JSON and end."`
}

func (topCommand) Help() string {
	return `Nodes, GPUs, replicas and deployments, read anew every second. Press ? for the keys. A node that does not answer is red.

Examples:

  troupe top
  troupe top --nats nats://10.0.0.7:4222
  troupe top --once
  troupe top --json | jq '.nodes[] | select(.unreachable != "") | .member.name'`
}

// Run shows the cluster until it is told to end.
func (t topCommand) Run(c console) error {
	conn, err := t.connect("troupe top")
	if err != nil {
		return err
	}
	defer conn.Close()
	ask := func(ctx context.Context, endpoint string, request, answer proto.Message) error {
		return t.ask(ctx, conn, endpoint, request, answer)
	}
	if !t.Once && !t.JSON {
		_, err = tea.NewProgram(top.New(ask), tea.WithOutput(c.out)).Run()
		return err
	}
	seen, err := twice(ask)
	if err != nil {
		return err
	}
	if t.Once {
		_, err = lipgloss.Fprintln(c.out, seen.Print()) // colours where that is a terminal
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

// twice takes two samples, a second apart: what is done per second is their difference.
func twice(ask top.Ask) (top.Model, error) {
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
