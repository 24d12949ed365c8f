package main

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"google.golang.org/protobuf/proto"

	"troupe/messages"
	"troupe/observe/top"
)

type kvCommand struct {
	clusterClient
	Watch bool `name:"watch" short:"w" xor:"how" help:"Refresh every second until q is pressed."`
	JSON  bool `name:"json" xor:"how" help:"Print JSON."`
}

func (kvCommand) Help() string {
	return `Shows the KV blocks of all nodes by tier: hbm (GPU memory), dram (host memory), nvme (disk) and remote
(other nodes).

Tiers:

  FULL      share of the capacity in use; for remote, the blocks in flight to this node
  BLOCKS    stored blocks; for remote, the blocks known to be stored there
  PINNED    blocks of pinned prefixes
  MOVING    blocks being copied
  HITS      blocks of prompts found in the tier, as a share of those looked up there
  IN        blocks that entered the tier
  DOWN      blocks copied to the tier below, or already there
  DROPPED   blocks evicted without a copy, flushed or damaged; for hbm also those with a lower copy
  DAMAGED   blocks with a wrong checksum, which were recomputed

Paths between two tiers: NOW is the rate of the last second, SPEED the mean rate of the copies, FAILED the blocks that
did not arrive in time or intact.
Replicas: RESTORES counts the sequences whose blocks were copied up, AVOIDED those for which recomputing was faster.
A PIN is a prefix whose blocks are evicted last from hbm, and never from the tier below.

Examples:

  troupe kv
  troupe kv --watch
  troupe kv --json | jq '.nodes[].tiers[].slots'
  nats req troupe.v1.kv.pin '{"model": "kjv-2m", "messages": [{"role": "system", "content": "…"}]}'
  nats req troupe.v1.kv.flush '{"tier": "dram"}'`
}

// Run shows the KV tiers.
func (k kvCommand) Run(c console) error {
	conn, err := k.connect("troupe kv")
	if err != nil {
		return err
	}
	defer conn.Close()
	ask := func(ctx context.Context, endpoint string, request, answer proto.Message) error {
		return k.request(ctx, conn, endpoint, request, answer)
	}
	switch {
	case k.Watch:
		_, err = tea.NewProgram(top.NewKV(ask), tea.WithOutput(c.out)).Run()
		return err
	case k.JSON:
		answer := &messages.KvStatsResponse{}
		if err := ask(context.Background(), "kv.stats", &messages.KvStatsRequest{}, answer); err != nil {
			return err
		}
		return printJSON(c.out, answer)
	}
	seen := top.NewKV(ask)
	for i := range 2 { // rates are the difference of two samples, one second apart
		if i > 0 {
			time.Sleep(time.Second)
		}
		sample, err := top.ObserveKV(context.Background(), ask)
		if err != nil {
			return err
		}
		seen = seen.WithSample(sample, nil)
	}
	_, err = lipgloss.Fprintln(c.out, seen.Print()) // with colors if it is a terminal
	return err
}
