package node_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"troupe/core/kv"
	"troupe/messages"
	"troupe/node"
	"troupe/testkit"
)

// withTiers gives a node tiers, and so few HBM blocks that most blocks are demoted.
func withTiers(path string, more ...func(*node.Config)) func(*node.Config) {
	return func(c *node.Config) {
		withLimits(8, 400, 70)(c)
		c.Tiers = node.TiersConfig{
			DRAMBytes: 40 * 64 << 10,
			NVMeBytes: 4000 * 64 << 10,
			NVMePath:  path,
			Watermark: 0.5,
			Restore:   kv.RestoreAlways,
		}
		for _, change := range more {
			change(c)
		}
	}
}

// withParts restores blocks layer by layer, so that prefill can overlap with the restore.
func withParts(c *node.Config) { c.Tiers.PartBytes = 1 }

// completeConversations completes prompts with common prefixes in two rounds, so that the second
// round reuses blocks of the first.
func completeConversations(t *testing.T, n *node.Node, many int) []string {
	t.Helper()
	return completeConversationsOf(t, n, "kjv", many)
}

// completeConversationsOf is like completeConversations, for the given model.
func completeConversationsOf(t *testing.T, n *node.Node, model string, many int) []string {
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

// plain has what completeConversations returns on a node with the light model and room for all blocks.
var plain struct {
	sync.Mutex
	many  int
	texts []string
}

// plainConversations returns what the light model answers on a node with room for all blocks. It is
// computed once for all tests that compare with them: the prompts of fewer conversations are a prefix.
func plainConversations(t *testing.T, many int) []string {
	t.Helper()
	plain.Lock()
	defer plain.Unlock()
	if plain.many < many {
		enough := max(many, 24)
		texts := completeConversations(t, start(t, withLight(t, withLimits(8, 400, 0))), enough)
		if t.Failed() {
			t.FailNow()
		}
		plain.many, plain.texts = enough, texts
	}
	return slices.Concat(plain.texts[:many], plain.texts[plain.many:][:many])
}

// conversationPrompts returns random prompts. Every four consecutive prompts share a prefix.
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

// TestTiersChangeNoToken checks that 64 random prompts get the tokens of a run with room for all blocks,
// although most blocks are demoted and restored.
func TestTiersChangeNoToken(t *testing.T) {
	t.Parallel() // it often waits
	const many = 32
	want := plainConversations(t, many)
	for _, how := range []struct {
		name   string
		change func(*node.Config)
	}{{"whole blocks", func(*node.Config) {}}, {"by layers", withParts}} {
		t.Run(how.name, func(t *testing.T) {
			n := start(t, withLight(t, withTiers(filepath.Join(t.TempDir(), "kv"), how.change)))
			got := completeConversations(t, n, many)
			for i := range want {
				if got[i] != want[i] || want[i] == "" {
					t.Errorf("prompt %d: got %q, want %q", i, got[i], want[i])
				}
			}
			// One by one, so that no step delays the start of a sequence until its restore has ended.
			for i, prompt := range conversationPrompts(many / 2) {
				if c := complete(t, n, conversationRequest("kjv", prompt, i)); c.Choices[0].Text != want[i] {
					t.Errorf("prompt %d alone: got %q, want %q", i, c.Choices[0].Text, want[i])
				}
			}
			dram, nvme := awaitSettledTiers(t, n)
			r := replica(t, n, "kjv")
			t.Logf("offloaded %d, restored %d, recomputed %d; overlapped %d, aborted %d; %v; %v", r.GetKvOffloaded(),
				r.GetKvRestored(), r.GetKvRecomputed(), r.GetKvRestoresOverlapped(), r.GetKvStepsAborted(), dram, nvme)
			if dram.GetArrivals() == 0 || dram.GetDemotions() == 0 || nvme.GetArrivals() == 0 ||
				r.GetKvRestored() < 50 ||
				dram.GetDamaged()+nvme.GetDamaged() > 0 {
				t.Error("too few blocks were demoted or restored")
			}
			if layered := how.name == "by layers"; layered != (int(r.GetKvRestoresOverlapped()) > many/10) {
				t.Errorf("%d sequences started before their blocks were restored", r.GetKvRestoresOverlapped())
			}
		})
	}
}

// awaitSettledTiers waits until no block is in flight between tiers.
func awaitSettledTiers(t *testing.T, n *node.Node) (dram, nvme *messages.SlotsStatus) {
	t.Helper()
	waitFor(t, "all copies to end", func() bool {
		all, err := n.Status().Tiers(t.Context())
		if err != nil {
			return false // the actor is restarting
		}
		dram, nvme = all[0], all[1]
		return dram.GetArriving()+dram.GetLeaving()+nvme.GetArriving() == 0
	})
	return dram, nvme
}

// TestTierFaultsChangeNoToken checks that prompts get the tokens of a run without tiers when an
// actor crashes or the file is corrupted, and that no slot leaks. testkit/dst crashes these actors at
// any message; this test adds the real blocks, the real file and its damage.
func TestTierFaultsChangeNoToken(t *testing.T) {
	t.Parallel() // it often waits
	const many = 24
	want := plainConversations(t, many)
	for _, tc := range []struct {
		kind  string
		crash *testkit.Crash
	}{
		{"tier", &testkit.Crash{On: "*messages.CommitBlocks", After: 7, Times: 2}},
		{"replica", &testkit.Crash{On: "*messages.CopyFoundBlocksResult", After: 0, Times: 1}},
		{"engine", &testkit.Crash{On: "*messages.RunStep", After: 20, Times: 1}},
		{"copier", &testkit.Crash{On: "*copier.copyDone", After: 0, Times: 1}},
		{"file", &testkit.Crash{}},
	} {
		t.Run(tc.kind+" "+tc.crash.On, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "kv")
			n := start(t, withLight(t, withTiers(path, withParts, func(c *node.Config) {
				c.Middleware = wiredWith(tc.kind, tc.crash.Middleware)
			})))
			if tc.kind == "file" {
				defer corruptFile(t, path)()
			}
			got := completeConversations(t, n, many)
			for i := range want {
				if got[i] != want[i] {
					t.Errorf("prompt %d: got %q, want %q", i, got[i], want[i])
				}
			}
			if tc.crash.Crashed() < tc.crash.Times {
				t.Errorf("%d crashes, want %d", tc.crash.Crashed(), tc.crash.Times)
			}
			dram, nvme := awaitSettledTiers(t, n)
			t.Logf("restored %d; %v; %v", replica(t, n, "kjv").GetKvRestored(), dram, nvme)
			for _, s := range []*messages.SlotsStatus{dram, nvme} {
				if s.GetFree()+s.GetResident() != s.GetSlots() {
					t.Errorf("slots leaked: %v", s)
				}
			}
			if tc.kind == "file" && (nvme.GetDamaged() == 0 || failedCopies(t, n, "nvme", "hbm") == 0) {
				t.Error("no corruption was detected")
			}
		})
	}
}

// failedCopies returns the number of blocks whose copy between two tiers failed.
func failedCopies(t *testing.T, n *node.Node, from, to string) (blocks uint64) {
	t.Helper()
	stats, err := n.Backend().KV(t.Context(),
		&messages.KvNodeRequest{What: &messages.KvNodeRequest_Stats{Stats: &messages.KvStatsRequest{}}})
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

// corruptFile changes random bytes in a file's first slots until stop is called.
func corruptFile(t *testing.T, path string) (stop func()) {
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

// TestNVMeTierSurvivesRestart checks that a restarted node reuses the prefixes in its NVMe file,
// but not those of other weights.
func TestNVMeTierSurvivesRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kv")
	ask := map[string]any{
		"model":       "kjv",
		"prompt":      strings.Repeat("And God said, Let there be light. ", 30),
		"max_tokens":  8,
		"temperature": 0,
	}
	model := filepath.Join(t.TempDir(), "model")
	if err := os.CopyFS(model, os.DirFS(testkit.Model())); err != nil {
		t.Fatal(err)
	}
	life := func() (string, int) {
		var text string
		var cached int
		t.Run("life", func(t *testing.T) {
			n := start(t, withTiers(path, func(c *node.Config) {
				c.Deployments[0].Path = model
				c.Tiers.DRAMBytes, c.Tiers.Watermark = 0, 0.1
			}))
			waitFor(t, "the weights to be known", func() bool { return replica(t, n, "kjv").GetKvOffloadReady() })
			first := complete(t, n, ask)
			text, cached = first.Choices[0].Text, first.Usage.Details.Cached
			waitFor(t, "its blocks to be on the disk", func() bool {
				complete(t, n, map[string]any{"model": "kjv", "prompt": "a", "max_tokens": 2})
				all, err := n.Status().Tiers(t.Context())
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
