package node_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"troupe/messages"
	"troupe/node"
	"troupe/observe/tree"
	"troupe/testkit"
)

// client is a client of a session without a gateway.
type client struct {
	mu     sync.Mutex
	output []uint32
	failed *messages.Refused
	done   chan struct{}
}

func (c *client) Output() []uint32 { c.mu.Lock(); defer c.mu.Unlock(); return slices.Clone(c.output) }

func (c *client) Deliver(tokens []uint32, _ []*messages.TokenLogprobs, _ uint32, finish messages.FinishReason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.output = append(c.output, tokens...)
	if finish != messages.FinishReason_FINISH_REASON_UNSPECIFIED {
		close(c.done)
	}
}

func (c *client) Left() bool { return false }

func (c *client) Fail(r *messages.Refused) {
	c.failed = r
	close(c.done)
}

var calls int

// openSession starts a sequence. The client's done is closed at its end.
func openSession(t *testing.T, n *node.Node, seq *messages.SequenceSpec) *client {
	t.Helper()
	calls++
	c := &client{done: make(chan struct{})}
	if _, err := n.Call(fmt.Sprint(t.Name(), calls), c, seq); err != nil {
		t.Fatal(err)
	}
	return c
}

// adapterSequence returns a sequence of the shipped model with one of its adapters, or none if it
// is "".
func adapterSequence(adapter string, g testkit.Golden) *messages.SequenceSpec {
	s := &messages.SequenceSpec{
		Model: "kjv", Prompt: g.PromptIDs, Priority: messages.PriorityClass_PRIORITY_CLASS_STANDARD,
		Sampling: &messages.SamplingParams{MaxTokens: uint32(len(g.OutputIDs))},
	}
	if adapter != "" {
		s.Adapter, s.AdapterSpec = adapter, specOf(adapter)
	}
	return s
}

func specOf(adapter string) *messages.AdapterSpec {
	return &messages.AdapterSpec{
		Name:     adapter,
		Model:    "kjv",
		Revision: 1,
		Path:     filepath.Join(testkit.Model(), "adapters", adapter),
	}
}

func adapterGoldens(t *testing.T, adapter string) []testkit.Golden {
	if adapter == "" {
		return goldens(t)
	}
	return testkit.JSONLines[testkit.Golden](t,
		filepath.Join(testkit.Model(), "adapters", adapter, "golden_greedy.jsonl"))
}

var shipped = []string{"", "psalms", "proverbs", "shout"}

// generateMixed generates goldens of all adapters at once, the given number for each, and checks
// them.
func generateMixed(t *testing.T, n *node.Node, times int) {
	t.Helper()
	var running []func()
	for i := range times {
		for _, adapter := range shipped {
			gs := adapterGoldens(t, adapter)
			g := gs[i%len(gs)]
			c := openSession(t, n, adapterSequence(adapter, g))
			running = append(running, func() { checkOutput(t, "together", adapter, g, c) })
		}
	}
	for _, wait := range running {
		wait()
	}
}

func checkOutput(t *testing.T, how, adapter string, g testkit.Golden, c *client) {
	t.Helper()
	if <-c.done; c.failed != nil || !slices.Equal(c.output, g.OutputIDs) {
		t.Errorf("%s, %q: got %v %v, want %v", how, adapter, c.output, c.failed, g.OutputIDs)
	}
}

// TestAdapterGoldens checks that each adapter of the shipped model gives its golden outputs through
// session, router, replica, pool and engine: alone, and in batches with the others.
func TestAdapterGoldens(t *testing.T) {
	n := start(t, nil)
	for _, adapter := range shipped {
		for _, g := range adapterGoldens(t, adapter)[:2] { // engine/llama checks all
			checkOutput(t, "alone", adapter, g, openSession(t, n, adapterSequence(adapter, g)))
		}
	}
	generateMixed(t, n, 8)
	waitFor(t, "the replica to report the adapters", func() bool {
		var names []string
		for _, a := range replica(t, n, "kjv").GetAdapters() {
			if a.GetLocation() == messages.AdapterLocation_ADAPTER_LOCATION_GPU {
				names = append(names, a.GetName())
			}
		}
		return slices.Equal(names, []string{"proverbs", "psalms", "shout"})
	})
	if text := tree.Text(n.Backend().Tree()); !strings.Contains(text, "slot psalms@1 ") {
		t.Errorf("the tree does not name the adapters in the slots:\n%s", text)
	}
}

// withAdapterPages sets the adapter pages of a node's first deployment.
func withAdapterPages(n uint32, more ...func(*node.Config)) func(*node.Config) {
	return func(c *node.Config) {
		c.Deployments[0].AdapterPages = new(n)
		for _, change := range more {
			change(c)
		}
	}
}

// TestAdaptersTakeTurns checks that each sequence gets its tokens if only one adapter fits at a
// time.
func TestAdaptersTakeTurns(t *testing.T) {
	n := start(t, withAdapterPages(1))
	generateMixed(t, n, 2)
	awaitIdleAdapters(t, n)
}

// awaitIdleAdapters waits until no adapter is in use.
func awaitIdleAdapters(t *testing.T, n *node.Node) {
	t.Helper()
	waitFor(t, "adapters to be idle", func() bool {
		r := replica(t, n, "kjv")
		return r != nil && !slices.ContainsFunc(r.GetAdapters(), func(a *messages.AdapterHeld) bool {
			return a.GetSequences() > 0 || a.GetState() == messages.AdapterState_ADAPTER_STATE_ACTIVE
		})
	})
}

// TestCrashesAroundAdapters checks that sequences get their tokens when an actor crashes while
// adapters are loaded and evicted, and that no adapter is in use afterwards. testkit/dst crashes these
// actors at any message; this test adds real adapters and their files.
func TestCrashesAroundAdapters(t *testing.T) {
	t.Parallel() // it often waits
	for _, tc := range []struct {
		kind  string
		crash *testkit.Crash
	}{
		{"adapters", &testkit.Crash{On: "*messages.SlotLoaded", After: 1, Times: 2}},
		{"adapters", &testkit.Crash{On: "*adapter.inspected", After: 1, Times: 4}}, // crashes the replica too
		{"slot", &testkit.Crash{On: "*adapter.copied", After: 1, Times: 2}},
		{"replica", &testkit.Crash{On: "*messages.PinAdapterResult", After: 3, Times: 1}},
		{"gpu", &testkit.Crash{On: "*messages.LeaseAdapters", After: 0, Times: 1}},
	} {
		t.Run(tc.kind+" on "+tc.crash.On, func(t *testing.T) {
			few := uint32(2)
			if tc.kind == "gpu" {
				few = 0 // allocated at the first request
			}
			n := start(t, withAdapterPages(few, func(c *node.Config) {
				c.Middleware = wiredWith(tc.kind, tc.crash.Middleware)
			}))
			generateMixed(t, n, 2)
			if tc.crash.Crashed() == 0 {
				t.Error("nothing crashed")
			}
			awaitIdleAdapters(t, n)
		})
	}
}

// TestUnusableAdapters checks that a sequence whose adapter cannot be loaded fails with the reason,
// and that others are unaffected.
func TestUnusableAdapters(t *testing.T) {
	n := start(t, nil)
	g := adapterGoldens(t, "psalms")[0]
	damaged := func(change func(folder string)) string {
		folder := t.TempDir()
		if err := os.CopyFS(folder, os.DirFS(specOf("psalms").GetPath())); err != nil {
			t.Fatal(err)
		}
		change(folder)
		return folder
	}
	for name, tc := range map[string]struct {
		path string
		want messages.Reason
		says string
	}{
		"missing": {filepath.Join(t.TempDir(), "none"), messages.Reason_REASON_LOAD_FAILED, "no adapter_config.json"},
		"cut off": {damaged(func(folder string) {
			if err := os.Truncate(filepath.Join(folder, "adapter_model.safetensors"), 4000); err != nil {
				t.Fatal(err)
			}
		}), messages.Reason_REASON_LOAD_FAILED, "adapter_model.safetensors"},
	} {
		t.Run(name, func(t *testing.T) {
			seq := adapterSequence("psalms", g)
			seq.AdapterSpec = &messages.AdapterSpec{Name: "psalms", Model: "kjv", Revision: 2, Path: tc.path}
			bad, good := openSession(t, n, seq), openSession(t, n, adapterSequence("psalms", g))
			if <-bad.done; bad.failed.GetReason() != tc.want || !strings.Contains(bad.failed.GetDetail(), tc.says) ||
				!strings.Contains(bad.failed.GetDetail(), "psalms@2") {
				t.Errorf("refused with %v", bad.failed)
			}
			checkOutput(t, "beside it", "psalms", g, good)
		})
	}
	unnamed := adapterSequence("psalms", g)
	unnamed.AdapterSpec = nil
	c := openSession(t, n, unnamed)
	if <-c.done; c.failed.GetReason() != messages.Reason_REASON_INVALID_ARGUMENT {
		t.Errorf("without a description: %v", c.failed)
	}
	awaitIdleAdapters(t, n)
}
