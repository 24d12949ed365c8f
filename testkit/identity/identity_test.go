package identity_test

import (
	"context"
	"flag"
	"os"
	"testing"
	"time"

	"troupe/testkit/cluster"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

var (
	length = flag.Duration("length", 0, "how long to exchange models; 0: a few times only")
	kills  = flag.Int("kills", 0, "number of kills of a node")
	nodes  = flag.Int("nodes", 2, "1: one node with two devices; 2: two nodes with one each")
	seed   = flag.Uint64("seed", 1, "seed of the demand, of what the operator does, and of the kills")
	rounds = flag.Int("rounds", 3, "number of times that a model is parked and activated")
)

// A device holds the weights, the workspace and the KV memory of two models, and not of three.
const (
	deviceMemory = "56MiB"
	perDevice    = 2
	maxSequences = 16
)

// devices are the devices of each node, by the number of nodes.
var devices = map[int]string{1: "host:2x" + deviceMemory, 2: "host:1x" + deviceMemory}

// TestModelsStayThemselves runs six models on two devices that hold two each, while an operator
// exchanges them. Every stream has exactly the tokens of its own model, and none is refused unless its
// time is up.
func TestModelsStayThemselves(t *testing.T) {
	streams, tokens, ask, interval, within := 64, 48, prompts, time.Second, *length
	if within == 0 { // the short form
		streams, tokens, ask, interval, within = 16, 16, prompts[:2], 300*time.Millisecond, 2*time.Second
	}
	all := generate(t, 6)
	byModel := questions(t, all, ask, tokens)
	g := &group{t: t, random: newRandom(2), all: all, done: map[string]int{}, events: map[string]int{}}
	g.Cluster = cluster.Up(t, cluster.Config{Nodes: *nodes, NATS: cluster.External, Devices: devices[*nodes]})
	ctx := cluster.TestContext(t, within+3*time.Minute)
	g.must(g.WaitMembers(ctx))
	g.count()
	g.deploy(ctx)

	load := demand(byModel, 4096)
	load.Streams, load.Gateways, load.Repeat = streams, g.Nodes, true
	run := load.Start(ctx)
	operating, end := context.WithCancel(ctx)
	g.must(g.disturb(operating, within, interval, *kills))
	report := g.operateUntil(operating, interval, run.Finish)
	end()
	g.operations.Wait()
	t.Logf("in %s, %d killed; operator: %v; events: %v; refused: %v", within, *kills, g.done, g.events, report.Refused)
	t.Logf("%s; to the first token: %s", report, cluster.Summarize(report.First))
	if err := report.Err(); err != nil {
		t.Error(err)
	}
	for _, what := range operations {
		if *length > 0 && g.done[what.name] == 0 {
			t.Errorf("nothing did %q", what.name)
		}
	}
	g.finish(ctx, byModel)
}
