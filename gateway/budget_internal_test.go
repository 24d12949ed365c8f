package gateway

import (
	"context"
	"errors"
	"testing"

	"troupe/actors/supervise"
)

// TestTokenizerPermits checks that only a few large texts are tokenized at once, and that small
// texts and cancelled requests do not wait.
func TestTokenizerPermits(t *testing.T) {
	b := newMemoryBudget(1, supervise.System)
	var done []func()
	for b.tokenizers.TryAcquire(1) {
		done = append(done, func() { b.tokenizers.Release(1) })
	}
	if n := len(done); n < 1 || n > maxTokenizers {
		t.Errorf("%d large texts at once", n)
	}
	if _, err := b.acquireTokenizer(t.Context(), largeText-1); err != nil {
		t.Errorf("small text: %v", err)
	}
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if _, err := b.acquireTokenizer(ctx, largeText); !errors.Is(err, context.Canceled) {
		t.Errorf("large text of a client that has left: %v", err)
	}
	done[0]()
	end, err := b.acquireTokenizer(t.Context(), largeText)
	if err != nil {
		t.Fatal(err)
	}
	end()
}

// TestFreeBodyMemoryIsTakenLate checks that free memory is given to a request whose time to wait has
// passed, as on a machine that did not run it meanwhile, and that none is given if there is none.
func TestFreeBodyMemoryIsTakenLate(t *testing.T) {
	b := newMemoryBudget(10, supervise.System)
	late, pass := context.WithCancel(t.Context())
	pass()
	if err := (&reservation{budget: b}).grow(late, 10); err != nil {
		t.Errorf("10 of 10 bytes: %v", err)
	}
	if (&reservation{budget: b}).grow(late, 1) == nil {
		t.Error("more than there are")
	}
}
