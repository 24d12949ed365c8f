package identity_test

import (
	"flag"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"troupe/testkit/cluster"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

var (
	length    = flag.Duration("length", 0, "how long to exchange models; 0: a few times only")
	killEvery = flag.Duration("kill", 0, "interval between kills of a node; 0: none")
	seed      = flag.Uint64("seed", 1, "seed of the demand, the exchanges and the kills")
)

// A device holds the weights, the workspace and the KV memory of two models, and not of three.
const (
	device       = "host:1x56MiB"
	perDevice    = 2
	maxSequences = 16
)

// TestModelsStayThemselves exchanges six models on two devices that hold two each, while streams
// run. Every stream has exactly the tokens of its own model.
func TestModelsStayThemselves(t *testing.T) {
	streams, tokens, ask, interval, within := 64, 48, prompts, time.Second, *length
	if within == 0 { // the short form
		streams, tokens, ask, interval, within = 16, 16, prompts[:2], 300*time.Millisecond, 2*time.Second
	}
	all := generate(t, 6)
	byModel := questions(t, all, ask, tokens)
	g := &group{t: t, random: rand.New(rand.NewPCG(*seed, 2))}
	g.Cluster = cluster.Up(t, cluster.Config{Nodes: 2, NATS: cluster.External, Devices: device})
	ctx := cluster.TestContext(t, within+3*time.Minute)
	g.must(g.WaitMembers(ctx))
	g.deploy(ctx, all, 2*perDevice)

	load := demand(byModel, 4096, *seed)
	load.Streams, load.Gateways, load.Repeat = streams, g.Nodes, true
	// A model that is brought in has no room until the memory of the other one is free, or while a
	// node is down.
	load.Permitted = []string{"model_stopped", cluster.NoMemory}
	run := load.Start(ctx)
	disturbed := g.disturb(ctx, within, interval, *killEvery)
	report := run.Finish()
	t.Logf("%d exchanges, %d kills, refused %v", g.switches, g.kills, report.Refused)
	t.Log(report)
	g.must(disturbed)
	if err := report.Err(); err != nil {
		t.Error(err)
	}
	if report.Streams == 0 || g.switches == 0 {
		t.Error("nothing was exchanged, or no stream ran")
	}
	g.finish(ctx, byModel)
}
