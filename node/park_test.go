package node_test

import (
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/encoding/protojson"

	"troupe/core/kv"
	"troupe/messages"
	"troupe/node"
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

// offload has all blocks copied down while as few steps run as that takes: it goes on between two of them.
func offload(t *testing.T, conn *nats.Conn, g *gate) *messages.KvMoved {
	t.Helper()
	inbox := conn.NewInbox()
	sub, err := conn.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.PublishRequest("troupe.v1.kv.offload", inbox, nil); err != nil {
		t.Fatal(err)
	}
	for {
		m, err := sub.NextMsg(10 * time.Millisecond)
		if errors.Is(err, nats.ErrTimeout) {
			g.one()
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		var moved messages.KvOffloadResponse
		if err := protojson.Unmarshal(m.Data, &moved); err != nil || len(moved.GetMoved()) != 1 {
			t.Fatalf("%v, %v: %s", &moved, err, m.Data)
		}
		return moved.GetMoved()[0]
	}
}

// TestParkedSequenceIsNotComputedAgain: a sequence gives way to another one, its blocks go down a tier and are gone from HBM, and it goes on where it
// was: every token of both is computed once, and the words are those of a run of its own.
func TestParkedSequenceIsNotComputedAgain(t *testing.T) {
	long := map[string]any{"model": "kjv", "prompt": "In the days of the judges there was a famine in the land.", "max_tokens": 150, "temperature": 0, "ignore_eos": true, "priority": "batch"}
	want := complete(t, start(t, nil), long).Choices[0].Text
	for _, name := range []string{"dram", "nvme"} {
		t.Run(name, func(t *testing.T) {
			done := &work{}
			n, g := gated(t, 95, func(c *node.Config) {
				roomy(t)(c)
				if c.Tiers.Restore = kv.RestoreAlways; name == "nvme" {
					c.Tiers.DRAMBytes = 0
				}
				c.Deployments[0].MaxSequences = new(uint32(1))
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
			g.await(t)
			urgent := make(chan completion)
			go func() {
				_, body := post(t, n, "/v1/completions", map[string]any{"model": "kjv", "prompt": "And it came to pass", "max_tokens": 700, "ignore_eos": true, "priority": "interactive"})
				var c completion
				_ = json.Unmarshal(body, &c)
				urgent <- c
			}()
			until(t, "the second one to wait", func() bool { return held(t, conn).GetReplicas()[0].GetWaiting() == 1 })
			g.one()
			until(t, "the first to give way", func() bool { return held(t, conn).GetReplicas()[0].GetPreemptions() == 1 })
			down := offload(t, conn, g)
			gone := answer[messages.KvFlushResponse](t, conn, "troupe.v1.kv.flush", `{"tier":"hbm"}`).GetMoved()[0]
			if down.GetBlocks() < 4 || gone.GetBlocks() < 4 {
				t.Errorf("offloaded %v, flushed %v", down, gone)
			}
			g.open()
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
