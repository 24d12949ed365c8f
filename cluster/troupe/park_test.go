package troupe_test

import (
	"encoding/json"
	"sync/atomic"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/cluster/troupe"
	"troupe/messages"
)

// work counts the tokens that engines compute.
type work struct{ tokens atomic.Int64 }

func (w *work) wrap(kind string, p *actor.Props) *actor.Props {
	if kind != "engine" {
		return p
	}
	return p.Configure(actor.WithReceiverMiddleware(func(next actor.ReceiverFunc) actor.ReceiverFunc {
		return func(ctx actor.ReceiverContext, env *actor.MessageEnvelope) {
			if step, ok := env.Message.(*messages.RunStep); ok {
				for _, s := range step.GetSequences() {
					w.tokens.Add(int64(len(s.GetTokens())))
				}
			}
			next(ctx, env)
		}
	}))
}

// TestParkedSequenceIsNotComputedAgain: a sequence gives way to another one, its blocks go down a tier and are gone from HBM, and it goes on where it
// was: every token of both is computed once, and the words are those of a run of its own.
func TestParkedSequenceIsNotComputedAgain(t *testing.T) {
	long := map[string]any{"model": "kjv", "prompt": "In the days of the judges there was a famine in the land.", "max_tokens": 150, "temperature": 0, "ignore_eos": true, "priority": "batch"}
	want := complete(t, start(t, nil), long).Choices[0].Text
	for _, name := range []string{"dram", "nvme"} {
		t.Run(name, func(t *testing.T) {
			done := &work{}
			n := start(t, func(c *troupe.Config) {
				roomy(t)(c)
				if c.Tiers.RestoreAlways = true; name == "nvme" {
					c.Tiers.DRAMBytes = 0
				}
				c.Deployments[0].MaxSequences = 1
				c.Wrap = done.wrap
			})
			conn := connect(t, n)
			parked := make(chan completion)
			go func() {
				_, body := post(t, n, "/v1/completions", long)
				var c completion
				_ = json.Unmarshal(body, &c) // it is not what is wanted then
				parked <- c
			}()
			until(t, "the first sequence to run", func() bool { return done.tokens.Load() > 90 })
			urgent := make(chan completion)
			go func() {
				_, body := post(t, n, "/v1/completions", map[string]any{"model": "kjv", "prompt": "And it came to pass", "max_tokens": 700, "ignore_eos": true, "priority": "interactive"})
				var c completion
				_ = json.Unmarshal(body, &c)
				urgent <- c
			}()
			until(t, "it to give way", func() bool { return held(t, conn).GetReplicas()[0].GetPreemptions() == 1 })
			down := answer[messages.KvOffloadResponse](t, conn, "troupe.v1.kv.offload", "").GetMoved()[0]
			gone := answer[messages.KvFlushResponse](t, conn, "troupe.v1.kv.flush", `{"tier":"hbm"}`).GetMoved()[0]
			if down.GetBlocks() < 4 || gone.GetBlocks() < 4 {
				t.Errorf("offloaded %v, flushed %v", down, gone)
			}
			first, second := <-parked, <-urgent
			if first.Choices[0].Text != want {
				t.Errorf("it says %q, and alone %q", first.Choices[0].Text, want)
			}
			once := 0
			for _, c := range []completion{first, second} {
				once += c.Usage.PromptTokens + c.Usage.CompletionTokens - 1 // the last one is not computed
			}
			r := held(t, conn).GetReplicas()[0]
			if got := int(done.tokens.Load()); got != once || r.GetKvRestored() < 4 || r.GetPreemptions() != 1 {
				t.Errorf("%d tokens were computed for %d; %d blocks restored, %d preemptions", got, once, r.GetKvRestored(), r.GetPreemptions())
			}
			t.Logf("%d tokens, %d blocks restored", once, r.GetKvRestored())
		})
	}
}
