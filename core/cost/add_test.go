package cost

import "testing"

func TestAdd(t *testing.T) {
	got := Step{}.AddPrompt(100, 50).AddPrompt(10, 0).AddDecode(300).AddDecode(0)
	if want := (Step{Prompt: 110, Decode: 2, Context: 350}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestPairs computes pairs by hand: a prompt alone attends to all of the context, and one beside three
// sequences to half of a quarter.
func TestPairs(t *testing.T) {
	for step, want := range map[Step]float64{
		{Prompt: 10}:                          50,
		{Prompt: 10, Context: 100}:            1050,
		{Prompt: 10, Decode: 3, Context: 800}: 1050,
		{Decode: 3, Context: 800}:             0,
	} {
		if got := step.pairs(); got != want {
			t.Errorf("%v: %v pairs, want %v", step, got, want)
		}
	}
}
