package wire_test

import (
	"slices"
	"testing"
	"time"

	"troupe/actors/model/replica/wire"
	"troupe/core/batch"
	"troupe/core/kv"
	"troupe/core/lora"
	"troupe/core/replica"
	"troupe/messages"
)

// TestReasons checks that each reason has a counterpart in messages, except Relayed.
func TestReasons(t *testing.T) {
	seen := make(map[messages.Reason]replica.Reason)
	for reason := range replica.Relayed {
		msg := wire.Refused(&replica.Refusal{Reason: reason, Detail: "why", RetryAfter: time.Second})
		if other, twice := seen[msg.GetReason()]; twice || msg.GetReason() == messages.Reason_REASON_UNSPECIFIED {
			t.Errorf("%s is %s, as %s is", reason, msg.GetReason(), other)
		}
		if msg.GetDetail() != "why" || msg.GetRetryAfter().AsDuration() != time.Second {
			t.Errorf("%v", msg)
		}
		seen[msg.GetReason()] = reason
	}
	if wire.Refused(nil) != nil || wire.RefusedByBatch(nil) != nil || wire.PinRefusal(nil) != nil {
		t.Error("no refusal became one")
	}
}

// TestPinRefusal checks that a reason that pools do not use counts as a failure.
func TestPinRefusal(t *testing.T) {
	for reason, want := range map[messages.Reason]lora.Reason{
		messages.Reason_REASON_QUEUE_FULL: lora.NoRoom,
		messages.Reason_REASON_INTERNAL:   lora.Failed,
	} {
		if got := wire.PinRefusal(&messages.Refused{Reason: reason}); got.Reason != want {
			t.Errorf("%s became %v", reason, got.Reason)
		}
	}
}

// TestStep checks the sequence that the engine gets: it has a history only if sampling depends on
// it, stop tokens only until it has its minimum of tokens, and nothing if it was cancelled.
func TestStep(t *testing.T) {
	base := wire.Base{EOS: []uint32{9}}
	s := newScheduler(t)
	entry := batch.Entry{ID: "r", Tokens: []uint32{1}, Position: 2, Blocks: []int32{3}, Sample: true}
	for name, tc := range map[string]struct {
		sampling *messages.SamplingParams // nil: cancelled
		history  bool
		banned   []uint32
	}{
		"cancelled":         {},
		"greedy":            {&messages.SamplingParams{}, false, nil},
		"penalty":           {&messages.SamplingParams{PresencePenalty: 1}, true, nil},
		"neutral":           {&messages.SamplingParams{RepetitionPenalty: 1}, false, nil},
		"minimum":           {&messages.SamplingParams{MinTokens: 2, StopTokenIds: []uint32{5}}, false, []uint32{5, 9}},
		"minimum, ignores":  {&messages.SamplingParams{MinTokens: 2, IgnoreEos: true}, false, nil},
		"minimum, and more": {&messages.SamplingParams{MinTokens: 1}, false, nil},
	} {
		var spec *messages.SequenceSpec
		if tc.sampling != nil {
			spec = &messages.SequenceSpec{Sampling: tc.sampling}
		}
		got := base.StepSequence(entry, spec, s)
		if got.GetSampling() != tc.sampling || (len(got.GetPrompt()) > 0) != tc.history ||
			!slices.Equal(got.GetBanned(), tc.banned) || got.GetPosition() != 2 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestLogprobs checks that log-probabilities belong to the entries that sample.
func TestLogprobs(t *testing.T) {
	entries := []batch.Entry{{ID: "a"}, {ID: "b", Sample: true}, {ID: "c", Sample: true}}
	tokens := []*messages.SampledToken{{Token: 1}, {Token: 2, Logprobs: &messages.TokenLogprobs{Logprob: -1},
		NotFinite: true}}
	if got := wire.Logprobs(entries, tokens); len(got) != 1 || got["c"].GetLogprob() != -1 {
		t.Errorf("%v", got)
	}
	if ids, bad := wire.Sampled(tokens); !slices.Equal(ids, []uint32{1, 2}) || !slices.Equal(bad, []int{1}) {
		t.Errorf("%v, %v", ids, bad)
	}
}

// newScheduler returns a scheduler with a sequence r that has one output token.
func newScheduler(t *testing.T) *batch.Scheduler {
	t.Helper()
	s := batch.New(batch.Limits{MaxSequences: 1, StepTokens: 8, ContextTokens: 16}, kv.NewPool(4, 4))
	r := batch.Request{ID: "r", Prompt: []uint32{1, 2}, Output: []uint32{3}, MaxOutput: 4}
	if _, why := s.Submit(r); why != nil {
		t.Fatal(why)
	}
	return s
}
