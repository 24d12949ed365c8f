package main

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/nats-io/nats.go"

	"troupe/messages"
	"troupe/node"
	"troupe/testkit/cluster"
)

const (
	standbyRounds = 200
	standbyWait   = 10 * time.Second
)

var (
	activated = hop{"replicas", "*messages.SetReplicaLevel"}
	firstStep = hop{"engine", "*messages.RunStep"}
)

// waiting submits a sequence to a replica as soon as the replica has been activated, as a session does
// whose request waits for it.
type waiting struct {
	tracer
	once   sync.Once
	client *actor.PID // receives the tokens, and drops them
	rounds int
}

func (w *waiting) middleware(kind string) []actor.ReceiverMiddleware {
	submit := func(next actor.ReceiverFunc) actor.ReceiverFunc {
		return func(ctx actor.ReceiverContext, env *actor.MessageEnvelope) {
			next(ctx, env)
			set, ok := env.Message.(*messages.SetReplicaLevel)
			if !ok || kind != "replica" || set.GetLevel() != messages.Level_LEVEL_ACTIVE {
				return
			}
			root := ctx.ActorSystem().Root
			w.once.Do(func() { w.client = root.Spawn(actor.PropsFromFunc(func(actor.Context) {})) })
			w.rounds++
			root.RequestWithCustomSender(ctx.Self(), &messages.SubmitSequence{
				RequestId: fmt.Sprint("waiting-", w.rounds),
				Sequence: &messages.SequenceSpec{Model: "kjv", Prompt: prompt(),
					Sampling: &messages.SamplingParams{MaxTokens: 1}},
			}, w.client)
		}
	}
	return append(w.tracer.middleware(kind), submit)
}

// standby measures how long a replica on standby needs to serve again.
func standby() (section, error) {
	s := section{
		title: "From standby to active",
		how: fmt.Sprintf("A replica goes to standby and gives its KV memory back but for one sequence of full length; "+
			"then it is activated, %d times. A sequence is submitted as soon as it accepts one. The first figure is "+
			"the control path: from the command at the replicas group to the first step at the engine. The second is "+
			"from the request over NATS to the end of a completion of one token over HTTP that is sent after its "+
			"answer; it includes a synced write to the store. Nothing else runs in the node. `go run ./tools/bench "+
			"-only standby` measures this section.",
			standbyRounds),
	}
	w := &waiting{tracer: tracer{seen: make(map[hop]time.Time)}}
	n, stop, err := nodeWith(func(c *node.Config) { c.Middleware = w.middleware })
	if err != nil {
		return s, err
	}
	defer stop()
	conn, err := nats.Connect(n.NATSURL())
	if err != nil {
		return s, err
	}
	defer conn.Close()
	front := httptest.NewServer(n.Handler())
	defer front.Close()
	body := fmt.Sprintf(`{"model":"kjv","prompt":%s,"max_tokens":1,"temperature":0}`,
		strings.ReplaceAll(fmt.Sprint(prompt()), " ", ","))
	var steps, answers []time.Duration
	for range standbyRounds {
		if err := setLevel(n, conn, "standby", onStandby); err != nil {
			return s, err
		}
		w.take()
		began := time.Now()
		if err := setLevel(n, conn, "activate", ready); err != nil {
			return s, err
		}
		if err := post(front.URL+"/v1/completions", body); err != nil {
			return s, err
		}
		answers = append(answers, time.Since(began))
		seen := w.take()
		if seen[activated].IsZero() || seen[firstStep].IsZero() {
			return s, fmt.Errorf("no step after the activation")
		}
		steps = append(steps, seen[firstStep].Sub(seen[activated]))
	}
	slices.Sort(steps)
	slices.Sort(answers)
	half, most := cluster.Quantile(steps, 0.5), cluster.Quantile(steps, 0.99)
	s.rows = []row{
		{"activate command to the first step: median", micros(half), "200 µs or less",
			yesNo(half <= 200*time.Microsecond)},
		{"activate command to the first step: p99", micros(most), "2 ms or less", yesNo(most <= 2*time.Millisecond)},
		{"`models.activate` to the end of a completion: median", micros(cluster.Quantile(answers, 0.5)), "", ""},
		{"`models.activate` to the end of a completion: p99", micros(cluster.Quantile(answers, 0.99)), "", ""},
	}
	return s, nil
}

func micros(d time.Duration) string { return fmt.Sprintf("%d µs", d.Microseconds()) }

// standbyBlocks is the number of KV blocks of one sequence of full length.
const standbyBlocks = 64

func onStandby(d *messages.DeploymentStatus) bool {
	return d.GetState() == messages.DeploymentState_DEPLOYMENT_STATE_STANDBY &&
		d.GetReplicas()[0].GetKvBlocks() <= standbyBlocks
}

func ready(d *messages.DeploymentStatus) bool {
	return d.GetState() == messages.DeploymentState_DEPLOYMENT_STATE_READY
}

// setLevel changes the level of the model and waits for a state of its deployment.
func setLevel(n *node.Node, conn *nats.Conn, verb string, want func(*messages.DeploymentStatus) bool) error {
	m, err := conn.Request("troupe.v1.models."+verb, []byte(`{"name": "kjv"}`), standbyWait)
	switch {
	case err != nil:
		return err
	case m.Header.Get("Nats-Service-Error") != "":
		return fmt.Errorf("models.%s: %s", verb, m.Data)
	}
	for until := time.Now().Add(standbyWait); time.Now().Before(until); time.Sleep(time.Millisecond) {
		if d, err := n.Backend().Deployment(context.Background(), "kjv"); err == nil && want(d) {
			return nil
		}
	}
	return fmt.Errorf("models.%s has no effect within %v", verb, standbyWait)
}
