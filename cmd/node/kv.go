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
	remote
	Watch bool `name:"watch" short:"w" xor:"how" help:"Read it anew every second, until q."`
	JSON  bool `name:"json" xor:"how" help:"Print it as JSON."`
}

func (kvCommand) Help() string {
	return `Where the KV blocks of all nodes are: in GPU memory (hbm), in host memory (dram), on disk (nvme), and with other nodes
(remote: FULL is what is on its way from there, BLOCKS what is known to be there). FULL is what is taken, HITS the part of the blocks
that prompts wanted and the tier had, IN what came into it, DOWN what the tier below took from it or had already, DROPPED what it gave up for lack of room, by flush or since it was damaged
(in hbm also what is below too), DAMAGED what was not what it should be and was computed again.

A PATH is what is copied from one tier to another; NOW is of the last second, FAILED the blocks that did not come, in time, intact or at all. Of each replica, RESTORES are the sequences whose blocks were copied up,
and AVOIDED those where computing them again was faster. A PIN is a prefix that is kept.

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
		return k.ask(ctx, conn, endpoint, request, answer)
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
	for i := range 2 { // a second apart: what moves is their difference
		if i > 0 {
			time.Sleep(time.Second)
		}
		sample, err := top.ObserveKV(context.Background(), ask)
		if err != nil {
			return err
		}
		seen = seen.WithSample(sample, nil)
	}
	_, err = lipgloss.Fprintln(c.out, seen.Print()) // colours where that is a terminal
	return err
}
