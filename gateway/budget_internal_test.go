package gateway

import (
	"context"
	"errors"
	"testing"
)

// TestTurns: big texts are tokenized a few at a time; small ones, and those that have left, do not
// wait.
func TestTurns(t *testing.T) {
	b := newBudget(1)
	var done []func()
	for b.turns.TryAcquire(1) {
		done = append(done, func() { b.turns.Release(1) })
	}
	if n := len(done); n < 1 || n > maxTurn {
		t.Errorf("%d big texts at once", n)
	}
	if _, err := b.turn(t.Context(), bigText-1); err != nil {
		t.Errorf("a small text: %v", err)
	}
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if _, err := b.turn(ctx, bigText); !errors.Is(err, context.Canceled) {
		t.Errorf("a big text whose client has left: %v", err)
	}
	done[0]()
	end, err := b.turn(t.Context(), bigText)
	if err != nil {
		t.Fatal(err)
	}
	end()
}
