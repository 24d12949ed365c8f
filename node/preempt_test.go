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

// tokenCounter counts the tokens that engines compute.
type tokenCounter struct{ tokens atomic.Int64 }

func (w *tokenCounter) middleware(kind string) []actor.ReceiverMiddleware {
	if kind != "engine" {
		return nil
	}
	return []actor.ReceiverMiddleware{func(next actor.ReceiverFunc) actor.ReceiverFunc {
		return func(ctx actor.ReceiverContext, env *actor.MessageEnvelope) {
			if step, ok := env.Message.(*messages.RunStep); ok {
				for _, s := range step.GetSequences() {
					w.tokens.Add(int64(len(s.GetTokens())))
				}
			}
			next(ctx, env)
		}
	}}
}

// offloadAll offloads all blocks. Blocks are moved between steps, so it lets one step pass at a
// time until there is an answer.
func offloadAll(t *testing.T, conn *nats.Conn, g *stepGate) *messages.KvMoved {
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
		m, err := sub.NextMsg(40 * time.Millisecond)
		if errors.Is(err, nats.ErrTimeout) {
			g.passOne()
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

// TestPreemptedSequenceIsRestored checks that a preempted sequence whose blocks are offloaded and
// flushed from HBM continues where it was. Each token is computed once, and the text is the same.
func TestPreemptedSequenceIsRestored(t *testing.T) {
	long := map[string]any{
		"model":       "kjv",
		"prompt":      "In the days of the judges there was a famine in the land.",
		"max_tokens":  150,
		"temperature": 0,
		"ignore_eos":  true,
		"priority":    "batch",
	}
	want := complete(t, start(t, withLight(t)), long).Choices[0].Text
	for _, name := range []string{"dram", "nvme"} {
		t.Run(name, func(t *testing.T) {
			done := &tokenCounter{}
			n, g := startGated(t, 95, withLight(t, func(c *node.Config) {
				withManualTiers(t)(c)
				if c.Tiers.Restore = kv.RestoreAlways; name == "nvme" {
					c.Tiers.DRAMBytes = 0
				}
				c.Deployments[0].MaxSequences = new(uint32(1))
				c.Middleware = done.middleware
			}))
			conn := connect(t, n)
			parked := make(chan completion)
			go func() {
				_, body := post(t, n, "/v1/completions", long)
				var c completion
				_ = json.Unmarshal(body, &c) // the comparison fails then
				parked <- c
			}()
			g.await(t)
			urgent := make(chan completion)
			go func() {
				_, body := post(t, n, "/v1/completions", map[string]any{
					"model":      "kjv",
					"prompt":     "And it came to pass",
					"max_tokens": 175,
					"ignore_eos": true,
					"priority":   "interactive",
				})
				var c completion
				_ = json.Unmarshal(body, &c)
				urgent <- c
			}()
			waitFor(t, "the second sequence to wait",
				func() bool { return kvStats(t, conn).GetReplicas()[0].GetWaiting() == 1 })
			g.passOne()
			waitFor(t, "the first sequence to be preempted",
				func() bool { return kvStats(t, conn).GetReplicas()[0].GetPreemptions() == 1 })
			down := offloadAll(t, conn, g)
			gone := answer[messages.KvFlushResponse](t, conn, "troupe.v1.kv.flush", `{"tier":"hbm"}`).GetMoved()[0]
			if down.GetBlocks() < 4 || gone.GetBlocks() < 4 {
				t.Errorf("offloaded %v, flushed %v", down, gone)
			}
			g.open()
			first, second := <-parked, <-urgent
			if first.Choices[0].Text != want {
				t.Errorf("got %q, alone %q", first.Choices[0].Text, want)
			}
			once := 0
			for _, c := range []completion{first, second} {
				once += c.Usage.PromptTokens + c.Usage.CompletionTokens - 1 // the last token is not computed
			}
			r := kvStats(t, conn).GetReplicas()[0]
			if got := int(done.tokens.Load()); got != once || r.GetKvRestored() < 4 || r.GetPreemptions() != 1 {
				t.Errorf("%d tokens were computed for %d; %d blocks restored, %d preemptions", got, once,
					r.GetKvRestored(), r.GetPreemptions())
			}
			t.Logf("%d tokens, %d blocks restored", once, r.GetKvRestored())
		})
	}
}
