package node_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/core/kv"
	"troupe/messages"
	"troupe/node"
	"troupe/testkit"
)

// tiered gives a node tiers, and so few HBM blocks that most have to travel.
func tiered(path string, more ...func(*node.Config)) func(*node.Config) {
	return func(c *node.Config) {
		small(8, 400, 70)(c)
		c.Tiers = node.TiersConfig{DRAMBytes: 40 * 64 << 10, NVMeBytes: 4000 * 64 << 10, NVMePath: path, Watermark: 0.5,
			Restore: kv.RestoreAlways}
		for _, change := range more {
			change(c)
		}
	}
}

// byLayers restores blocks layer by layer, so that prefill can overlap with the restore.
func byLayers(c *node.Config) { c.Tiers.PartBytes = 1 }

// conversations asks for texts that share beginnings, in two rounds, so that what the first computed is wanted again.
func conversations(t *testing.T, n *node.Node, many int) []string {
	t.Helper()
	return conversationsWith(t, n, "kjv", many)
}

func conversationsWith(t *testing.T, n *node.Node, model string, many int) []string {
	t.Helper()
	texts, prompts := make([]string, 2*many), conversationPrompts(many)
	for round := range 2 {
		var wait sync.WaitGroup
		turns := make(chan struct{}, 8)
		for i := range prompts {
			turns <- struct{}{}
			wait.Go(func() {
				defer func() { <-turns }()
				ask := conversationRequest(model, prompts[i], i)
				if round == 1 {
					ask["prompt"] = prompts[i] + texts[i] + " And"
				}
				status, body := post(t, n, "/v1/completions", ask)
				var c completion
				if err := json.Unmarshal(body, &c); err != nil || status != http.StatusOK {
					t.Errorf("prompt %d: %d %s", i, status, body)
					return
				}
				texts[round*many+i] = c.Choices[0].Text
			})
		}
		wait.Wait()
	}
	return texts
}

// conversationPrompts returns random prompts. Each four of them share their beginning.
func conversationPrompts(many int) []string {
	r := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields("and the Lord said unto Moses in the wilderness of Sinai behold all these things " +
		"which came to pass before")
	prompts := make([]string, many)
	for i := range prompts {
		prompts[i] = fmt.Sprintf("In the days of king %d, ", i/4)
		for range 20 + r.IntN(60) {
			prompts[i] += words[r.IntN(len(words))] + " "
		}
	}
	return prompts
}

func conversationRequest(model, prompt string, seed int) map[string]any {
	return map[string]any{"model": model, "prompt": prompt, "max_tokens": 12, "temperature": 0.8, "seed": seed,
		"ignore_eos": true}
}

// TestTiersChangeNoToken: with room for few blocks in HBM, so that most travel down and up, all goldens and 200 random prompts give the tokens of a
// run with room for everything.
func TestTiersChangeNoToken(t *testing.T) {
	want := conversations(t, start(t, small(8, 400, 0)), 100)
	for _, how := range []struct {
		name   string
		change func(*node.Config)
	}{{"whole blocks", func(*node.Config) {}}, {"by layers", byLayers}} {
		t.Run(how.name, func(t *testing.T) {
			n := start(t, tiered(filepath.Join(t.TempDir(), "kv"), how.change))
			got := conversations(t, n, 100)
			for i := range want {
				if got[i] != want[i] || want[i] == "" {
					t.Errorf("prompt %d: got %q, want %q", i, got[i], want[i])
				}
			}
			// One by one, so that no step delays the start of a sequence until its restore has ended.
			for i, prompt := range conversationPrompts(50) {
				if c := complete(t, n, conversationRequest("kjv", prompt, i)); c.Choices[0].Text != want[i] {
					t.Errorf("prompt %d alone: got %q, want %q", i, c.Choices[0].Text, want[i])
				}
			}
			for _, g := range goldens(t) {
				c := complete(t, n, map[string]any{"model": "kjv", "prompt": g.Prompt, "max_tokens": len(g.OutputIDs), "temperature": 0})
				if c.Choices[0].Text != g.Text {
					t.Errorf("%q: got %q, want %q", g.Prompt, c.Choices[0].Text, g.Text)
				}
			}
			dram, nvme := settled(t, n)
			r := replica(t, n, "kjv")
			t.Logf("offloaded %d, restored %d, recomputed %d; overlapped %d, void %d; %v; %v", r.GetKvOffloaded(), r.GetKvRestored(), r.GetKvRecomputed(),
				r.GetKvRestoresOverlapped(), r.GetKvStepsVoid(), dram, nvme)
			if dram.GetArrivals() == 0 || dram.GetDepartures() == 0 || nvme.GetArrivals() == 0 || r.GetKvRestored() < 50 || dram.GetDamaged()+nvme.GetDamaged() > 0 {
				t.Error("too few blocks travelled")
			}
			if layered := how.name == "by layers"; layered != (r.GetKvRestoresOverlapped() > 10) {
				t.Errorf("%d sequences began before their blocks were there", r.GetKvRestoresOverlapped())
			}
		})
	}
}

// settled waits until no block travels.
func settled(t *testing.T, n *node.Node) (dram, nvme *messages.SlotsStatus) {
	t.Helper()
	until(t, "all copies to end", func() bool {
		all, err := n.Tiers(t.Context())
		if err != nil {
			return false // it is between two lives
		}
		dram, nvme = all[0], all[1]
		return dram.GetArriving()+dram.GetLeaving()+nvme.GetArriving() == 0
	})
	return dram, nvme
}

// TestTierFaultsChangeNoToken: whoever crashes while blocks travel, and whatever happens to the file, every prompt gets the tokens of a run without tiers,
// and no slot is lost.
func TestTierFaultsChangeNoToken(t *testing.T) {
	const many = 24
	want := conversations(t, start(t, small(8, 400, 0)), many)
	for _, tc := range []struct {
		kind  string
		crash *testkit.Crash
	}{
		{"tier", &testkit.Crash{On: "*messages.ReserveSlots", After: 9, Times: 1}}, // who asked waits for seconds: all may be over before the next
		{"tier", &testkit.Crash{On: "*messages.CommitBlocks", After: 7, Times: 2}},
		{"tier", &testkit.Crash{On: "*messages.LockBlocks", After: 12, Times: 1}},
		{"tier", &testkit.Crash{On: "*messages.UnlockBlocks", After: 12, Times: 1}},
		{"tier", &testkit.Crash{On: "*kvblock.demoteDone", After: 3, Times: 2}},
		{"replica", &testkit.Crash{On: "*replica.offloadDone", After: 2, Times: 1}},
		{"replica", &testkit.Crash{On: "*replica.lookupDone", After: 2, Times: 1}},
		{"replica", &testkit.Crash{On: "*replica.restoreDone", After: 0, Times: 1}},
		{"engine", &testkit.Crash{On: "*messages.RunStep", After: 20, Times: 1}},
		{"file", &testkit.Crash{}},
	} {
		t.Run(tc.kind+" "+tc.crash.On, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "kv")
			n := start(t, tiered(path, byLayers, func(c *node.Config) {
				c.Wrap = func(kind string, p *actor.Props) *actor.Props {
					if kind == tc.kind {
						p.Configure(actor.WithReceiverMiddleware(tc.crash.Middleware))
					}
					return p.Configure(actor.WithReceiverMiddleware(testkit.Wire))
				}
			}))
			if tc.kind == "file" {
				defer damage(t, path)()
			}
			got := conversations(t, n, many)
			for i := range want {
				if got[i] != want[i] {
					t.Errorf("prompt %d: got %q, want %q", i, got[i], want[i])
				}
			}
			if tc.crash.Crashed() < tc.crash.Times {
				t.Errorf("it crashed %d times, not %d", tc.crash.Crashed(), tc.crash.Times)
			}
			dram, nvme := settled(t, n)
			t.Logf("restored %d; %v; %v", replica(t, n, "kjv").GetKvRestored(), dram, nvme)
			for _, s := range []*messages.SlotsStatus{dram, nvme} {
				if s.GetFree()+s.GetResident() != s.GetSlots() {
					t.Errorf("slots are lost: %v", s)
				}
			}
			if tc.kind == "file" && (nvme.GetDamaged() == 0 || failed(t, n, "nvme", "hbm") == 0) {
				t.Error("no damage was seen")
			}
		})
	}
}

// failed is how many blocks did not come from one tier to another.
func failed(t *testing.T, n *node.Node, from, to string) (blocks uint64) {
	t.Helper()
	stats, err := n.KV(t.Context(), &messages.KvNodeRequest{What: &messages.KvNodeRequest_Stats{Stats: &messages.KvStatsRequest{}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range stats.GetNode().GetPaths() {
		if p.GetFrom() == from && p.GetTo() == to {
			blocks += p.GetFailed()
		}
	}
	return blocks
}

// damage changes bytes all over a file's first slots, until it is told to stop.
func damage(t *testing.T, path string) (stop func()) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ended sync.WaitGroup
	ctx, end := context.WithCancel(t.Context())
	ended.Go(func() {
		defer f.Close()
		b := make([]byte, 4096)
		for i := int64(0); ctx.Err() == nil; i++ {
			at := 4096 * (1 + 3*i%1000)
			if _, err := f.ReadAt(b, at); err != nil {
				t.Error(err)
				return
			}
			b[i%4096]++
			if _, err := f.WriteAt(b, at); err != nil {
				t.Error(err)
				return
			}
		}
	})
	return func() { end(); ended.Wait() }
}

// TestRestartedNodeHasItsBlocks: a node that starts again over the same file reuses prefixes that it computed in an earlier life; over other weights it
// does not.
func TestRestartedNodeHasItsBlocks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kv")
	ask := map[string]any{"model": "kjv", "prompt": strings.Repeat("And God said, Let there be light. ", 30), "max_tokens": 8, "temperature": 0}
	model := filepath.Join(t.TempDir(), "model")
	if err := os.CopyFS(model, os.DirFS(testkit.Model())); err != nil {
		t.Fatal(err)
	}
	life := func() (string, int) {
		var text string
		var cached int
		t.Run("life", func(t *testing.T) {
			n := start(t, tiered(path, func(c *node.Config) {
				c.Deployments[0].Path = model
				c.Tiers.DRAMBytes, c.Tiers.Watermark = 0, 0.1
			}))
			until(t, "the weights to be known", func() bool { return replica(t, n, "kjv").GetKvTravels() })
			first := complete(t, n, ask)
			text, cached = first.Choices[0].Text, first.Usage.Details.Cached
			until(t, "its blocks to be on the disk", func() bool {
				complete(t, n, map[string]any{"model": "kjv", "prompt": "a", "max_tokens": 2})
				all, err := n.Tiers(t.Context())
				return err == nil && all[0].GetResident() > 5 && all[0].GetArriving() == 0
			})
		})
		return text, cached
	}
	text, cached := life()
	again, restored := life()
	if cached != 0 || restored == 0 || again != text {
		t.Errorf("%d prompt tokens were cached, after the restart %d; %q, then %q", cached, restored, text, again)
	}
	weights, err := filepath.Glob(filepath.Join(model, "*.safetensors"))
	if err != nil || len(weights) == 0 {
		t.Fatal(weights, err)
	}
	content, err := os.ReadFile(weights[0])
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)-1] ^= 1
	if err := os.WriteFile(weights[0], content, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, other := life(); other != 0 {
		t.Errorf("%d prompt tokens of other weights were reused", other)
	}
}
