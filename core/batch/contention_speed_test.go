package batch

import (
	"testing"
	"time"
)

// TestContendedStepLimitsFollowDeviceSpeed counts the tokens of steps in which two clients have
// long prompts, on devices of different speed. The limits of contended steps bind on slow devices.
func TestContendedStepLimitsFollowDeviceSpeed(t *testing.T) {
	for _, tc := range []struct {
		name     string
		perToken time.Duration
		most     int // of prompts in a step
		least    int
	}{
		{"unknown", 0, 128, 64},
		{"slow", 2 * time.Millisecond, 128, 64},
		{"middling", 200 * time.Microsecond, 250, 120},
		{"fast", 30 * time.Microsecond, 512, 500},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHarness(defaultLimits, 20000)
			h.flood(t, "a", 8, 900, 1, 0)
			h.flood(t, "b", 8, 900, 1, 0)
			if tc.perToken > 0 {
				h.Observe(512, 512*tc.perToken)
			}
			var last map[string]int
			h.planned = func(s Step) { last = tokensOf(s) }
			for range 10 {
				h.step(t)
				if all := last["a"] + last["b"]; all > tc.most || all < tc.least {
					t.Fatalf("a step has %v tokens, want %d to %d", last, tc.least, tc.most)
				}
			}
		})
	}
}

// TestObserveIgnoresSmallSteps checks that Observe ignores steps with few tokens and follows
// changes of speed.
func TestObserveIgnoresSmallSteps(t *testing.T) {
	h := newHarness(defaultLimits, 100)
	h.Observe(1, time.Second)
	h.Observe(512, 0)
	if h.shares.perToken != 0 {
		t.Errorf("%s per token from steps that must be ignored", h.shares.perToken)
	}
	h.Observe(512, 512*time.Millisecond)
	for range 40 {
		h.Observe(512, 512*time.Microsecond)
	}
	if per := h.shares.perToken; per > 2*time.Microsecond {
		t.Errorf("%s per token after 40 steps of 1 µs per token", per)
	}
}
