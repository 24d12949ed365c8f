package troupe_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"troupe/cluster/troupe"
	"troupe/messages"
	"troupe/testkit"
)

// client is a client of a session that no gateway stands for.
type client struct {
	mu     sync.Mutex
	output []uint32
	failed *messages.Refused
	done   chan struct{}
}

func (c *client) Output() []uint32 { c.mu.Lock(); defer c.mu.Unlock(); return slices.Clone(c.output) }

func (c *client) Deliver(tokens []uint32, _ []*messages.TokenLogprobs, _ uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.output = append(c.output, tokens...)
}

func (c *client) Finish(messages.FinishReason) { close(c.done) }

func (c *client) Fail(r *messages.Refused) {
	c.failed = r
	close(c.done)
}

var calls int

// call has a node generate; the client's done is closed at the end.
func call(t *testing.T, n *troupe.Node, seq *messages.SequenceSpec) *client {
	t.Helper()
	calls++
	c := &client{done: make(chan struct{})}
	if _, err := n.Call(fmt.Sprint(t.Name(), calls), c, seq); err != nil {
		t.Fatal(err)
	}
	return c
}

// tuned is a sequence of the shipped model with one of its adapters; "": none.
func tuned(adapter string, g testkit.Golden) *messages.SequenceSpec {
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
	return &messages.AdapterSpec{Name: adapter, Model: "kjv", Revision: 1, Path: filepath.Join(testkit.Model(), "adapters", adapter)}
}

func adapterGoldens(t *testing.T, adapter string) []testkit.Golden {
	if adapter == "" {
		return goldens(t)
	}
	return testkit.JSONLines[testkit.Golden](t, filepath.Join(testkit.Model(), "adapters", adapter, "golden_greedy.jsonl"))
}

var shipped = []string{"", "psalms", "proverbs", "shout"}

// TestAdapterGoldens: through session, router, replica, pool and engine, each of the shipped model's adapters gives its golden outputs: alone, and
// all at once beside the others and the base model.
func TestAdapterGoldens(t *testing.T) {
	n := start(t, nil)
	check := func(how, adapter string, g testkit.Golden, c *client) {
		t.Helper()
		if <-c.done; c.failed != nil || !slices.Equal(c.output, g.OutputIDs) {
			t.Errorf("%s, %q: got %v %v, want %v", how, adapter, c.output, c.failed, g.OutputIDs)
		}
	}
	for _, adapter := range shipped {
		for _, g := range adapterGoldens(t, adapter) {
			check("alone", adapter, g, call(t, n, tuned(adapter, g)))
		}
	}
	var running []func()
	for i := range 8 {
		for _, adapter := range shipped {
			gs := adapterGoldens(t, adapter)
			g := gs[i%len(gs)]
			c := call(t, n, tuned(adapter, g))
			running = append(running, func() { check("together", adapter, g, c) })
		}
	}
	for _, wait := range running {
		wait()
	}
	var names []string
	for _, a := range replica(t, n, "kjv").GetAdapters() {
		if a.GetLocation() == messages.AdapterLocation_ADAPTER_LOCATION_GPU {
			names = append(names, a.GetName())
		}
	}
	if !slices.Equal(names, []string{"proverbs", "psalms", "shout"}) {
		t.Errorf("the replica says that it holds %v", names)
	}
}
