package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"troupe/messages"
	"troupe/testkit/cluster"
)

const (
	outageRounds  = 10
	outageStreams = 64
	outageTokens  = 200
)

// outages kills, stops and drains nodes while streams run through another node's gateway.
func outages() (section, error) {
	s := section{
		title: "Nodes that are lost",
		how: fmt.Sprintf("Two nodes, each a process with one replica, and an external nats-server. %d streams run "+
			"through the gateway of one; the other is killed, or stopped by SIGSTOP, %d times. Every "+
			"stream must have exactly the tokens of an undisturbed run. Detected: time until the node is "+
			"no longer a member. Pause: the longest time between two chunks of each open stream.",
			outageStreams, outageRounds),
	}
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	c, load, end, err := underLoad(ctx, cluster.Config{Nodes: 2, NATS: cluster.External})
	if err != nil {
		return s, err
	}
	defer end()
	for _, f := range []struct {
		kind cluster.Kind
		what string
	}{{cluster.Kill, "killed (kill -9)"}, {cluster.Stop, "stopped (SIGSTOP)"}} {
		o, err := c.Measure(ctx, load, cluster.Fault{Kind: f.kind, On: "n2"}, outageRounds)
		if err != nil {
			return s, err
		}
		p99 := cluster.Quantile(o.Pauses, 0.99)
		detected := cluster.Quantile(o.Detection, 0.99)
		s.rows = append(
			s.rows,
			row{
				"a node is " + f.what + ": detected", spread(o.Detection), "within 2 s",
				yesNo(detected <= 2*time.Second),
			},
			row{
				"a node is " + f.what + ": pause of a stream",
				spread(o.Pauses),
				"p99 under 3 s",
				yesNo(p99 < 3*time.Second),
			},
		)
	}
	moved, err := migrations(ctx, c, load)
	if err != nil {
		return s, err
	}
	s.rows = append(s.rows, moved)
	return s, nil
}

// lostLeaders kills the node whose NATS server leads the bucket of members.
func lostLeaders() (section, error) {
	s := section{
		title: "Nodes that are lost with their NATS server",
		how: fmt.Sprintf("Three nodes with embedded servers that form one NATS cluster. As above, but each time the "+
			"node is killed whose server leads the bucket of members: another leader must be elected "+
			"before the node can be deleted. %d rounds.", outageRounds),
	}
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	c, load, end, err := underLoad(ctx, cluster.Config{Nodes: 3, NATS: cluster.Routed})
	if err != nil {
		return s, err
	}
	defer end()
	var all cluster.Outages
	for range outageRounds {
		leader, err := c.Leader(ctx)
		if err != nil {
			return s, err
		}
		load.Gateways = slices.DeleteFunc(slices.Clone(c.Nodes), func(n *cluster.Node) bool { return n == leader })
		o, err := c.Measure(ctx, load, cluster.Fault{Kind: cluster.Kill, On: leader.Name}, 1)
		if err != nil {
			return s, err
		}
		all.Detection, all.Pauses = append(all.Detection, o.Detection...), append(all.Pauses, o.Pauses...)
	}
	slices.Sort(all.Detection)
	slices.Sort(all.Pauses)
	s.rows = append(
		s.rows,
		row{
			"the leader is killed (kill -9): detected", spread(all.Detection), "within 2 s",
			yesNo(cluster.Quantile(all.Detection, 0.99) <= 2*time.Second),
		},
		row{
			"the leader is killed (kill -9): pause of a stream",
			spread(all.Pauses),
			"p99 under 3 s",
			yesNo(cluster.Quantile(all.Pauses, 0.99) < 3*time.Second),
		},
	)
	return s, nil
}

// underLoad starts a cluster with a replica per node and returns the load for its first gateway.
func underLoad(
	ctx context.Context,
	cfg cluster.Config,
) (c *cluster.Cluster, load cluster.Load, end func(), err error) {
	requests := cluster.Requests(outageStreams, outageTokens)
	answers, err := cluster.ReferenceAnswers(ctx, requests)
	if err != nil {
		return nil, load, nil, err
	}
	if cfg.Dir, err = os.MkdirTemp("", "troupe-bench-"); err != nil {
		return nil, load, nil, err
	}
	clear := func() {
		_ = os.RemoveAll(cfg.Dir)
		cluster.RemoveBinaries()
	}
	if c, err = cluster.New(ctx, cfg); err != nil {
		clear()
		return nil, load, nil, err
	}
	end = func() {
		c.Close()
		clear()
	}
	if err := c.Deploy(ctx, cluster.Spec(cfg.Nodes)); err != nil {
		end()
		return nil, load, nil, err
	}
	return c, cluster.Load{
		Gateways: c.Nodes[:1],
		Requests: requests,
		Answers:  answers,
		Streams:  outageStreams,
	}, end, nil
}

// spread formats the quantiles of sorted durations.
func spread(all []time.Duration) string {
	ms := func(q float64) time.Duration { return cluster.Quantile(all, q).Round(time.Millisecond) }
	return fmt.Sprintf("median %s, p99 %s, of %d", ms(0.5), ms(0.99), len(all))
}

// migrations moves running sequences to the other node and back.
func migrations(ctx context.Context, c *cluster.Cluster, load cluster.Load) (row, error) {
	load.Repeat = true
	run := load.Start(ctx)
	defer run.Finish()
	if err := run.WaitStreaming(ctx); err != nil {
		return row{}, err
	}
	var pauses []time.Duration
	var bytes, moves uint64
	for range outageRounds {
		names, err := c.ReplicaNames(ctx)
		if err != nil {
			return row{}, err
		}
		for _, from := range names {
			res := &messages.MigrateReplicaResponse{}
			if err := c.Call(ctx, "replicas.migrate", &messages.MigrateReplicaRequest{From: from}, res); err != nil {
				return row{}, err
			}
			for _, m := range res.GetSequences() {
				if m.GetMoved() && m.GetBlocks() > 0 {
					pauses = append(pauses, time.Duration(m.GetPauseSeconds()*float64(time.Second)))
					bytes += m.GetBytes()
					moves++
				}
			}
		}
	}
	slices.Sort(pauses)
	if moves == 0 {
		return row{}, fmt.Errorf("no sequence was moved")
	}
	return row{
		what:   "a running sequence migrates to the other node, under that load: its pause",
		figure: fmt.Sprintf("%s moves, %.0f KiB of KV each", spread(pauses), float64(bytes)/float64(moves)/1024),
	}, nil
}
