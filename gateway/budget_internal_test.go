package gateway

import (
	"context"
	"errors"
	"testing"
)

// TestTokenizerPermits: big texts are tokenized a few at a time; small ones, and those that have left, do not
// wait.
func TestTokenizerPermits(t *testing.T) {
	b := newMemoryBudget(1)
	var done []func()
	for b.tokenizers.TryAcquire(1) {
		done = append(done, func() { b.tokenizers.Release(1) })
	}
	if n := len(done); n < 1 || n > maxTokenizers {
		t.Errorf("%d big texts at once", n)
	}
	if _, err := b.acquireTokenizer(t.Context(), largeText-1); err != nil {
		t.Errorf("a small text: %v", err)
	}
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if _, err := b.acquireTokenizer(ctx, largeText); !errors.Is(err, context.Canceled) {
		t.Errorf("a big text whose client has left: %v", err)
	}
	done[0]()
	end, err := b.acquireTokenizer(t.Context(), largeText)
	if err != nil {
		t.Fatal(err)
	}
	end()
}
