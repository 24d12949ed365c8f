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
			"the control path: from the command at the replicas group to the first step at the engine. The others "+
			"are from the request over NATS: to that step, to the answer, and to the end of a completion of one token "+
			"over HTTP that is sent after the answer. The level is in the store before the replica learns of it, and "+
			"the answer comes when it is on the node's disk too. The floor of the answer is what any such change "+
			"costs: an "+
			"empty request over NATS, a read and a write of a key in a bucket of the same server, and a file of 4 KiB "+
			"that is written and synced, with its folder. Nothing else runs in the node. `go run ./tools/bench -only "+
			"standby` measures this section.",
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
	f, err := newChangeFloor(conn)
	if err != nil {
		return s, err
	}
	defer f.close()
	var path, steps, answers, ends, floors []time.Duration
	var ratios []float64
	for range standbyRounds {
		if err := setLevel(n, conn, "standby", onStandby); err != nil {
			return s, err
		}
		bare, err := timed(f.change)
		if err != nil {
			return s, err
		}
		w.take()
		began := time.Now()
		if err := requestLevel(conn, "activate"); err != nil {
			return s, err
		}
		answer := time.Since(began)
		if err := reachLevel(n, "activate", ready); err != nil {
			return s, err
		}
		if err := post(front.URL+"/v1/completions", body); err != nil {
			return s, err
		}
		ends = append(ends, time.Since(began))
		seen := w.take()
		if seen[activated].IsZero() || seen[firstStep].IsZero() {
			return s, fmt.Errorf("no step after the activation")
		}
		path = append(path, seen[firstStep].Sub(seen[activated]))
		steps = append(steps, seen[firstStep].Sub(began))
		answers, floors = append(answers, answer), append(floors, bare)
		ratios = append(ratios, float64(answer)/float64(bare))
	}
	s.rows = slices.Concat(
		quantiles("standby: activate command to the first step", path, 200*time.Microsecond, 2*time.Millisecond),
		quantiles("standby: `models.activate` to the first step", steps, 0, 2*time.Millisecond),
		quantiles("standby: `models.activate` to its answer", answers, 0, 0),
		quantiles("standby: `models.activate` to the end of a completion", ends, 0, 0),
		[]row{{"standby: `models.activate` to its answer, over its floor", fmt.Sprintf("%.2f times the floor (%s, "+
			"floor %s)", median(ratios), micros(median(answers)), micros(median(floors))), "", ""}},
	)
	return s, nil
}

// quantiles returns the median and the 99th percentile of times, with their aims; 0: there is none.
func quantiles(what string, all []time.Duration, half, most time.Duration) (rows []row) {
	slices.Sort(all)
	for _, q := range []struct {
		name string
		at   float64
		aim  time.Duration
	}{{"median", 0.5, half}, {"p99", 0.99, most}} {
		is := cluster.Quantile(all, q.at)
		r := row{what: what + ": " + q.name, figure: micros(is)}
		if q.aim > 0 {
			r.aim, r.met = fmt.Sprintf("%v or less", q.aim), yesNo(is <= q.aim)
		}
		rows = append(rows, r)
	}
	return rows
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
	if err := requestLevel(conn, verb); err != nil {
		return err
	}
	return reachLevel(n, verb, want)
}

// requestLevel changes the level of the model.
func requestLevel(conn *nats.Conn, verb string) error {
	m, err := conn.Request("troupe.v1.models."+verb, []byte(`{"name": "kjv"}`), standbyWait)
	switch {
	case err != nil:
		return err
	case m.Header.Get("Nats-Service-Error") != "":
		return fmt.Errorf("models.%s: %s", verb, m.Data)
	}
	return nil
}

// reachLevel waits for a state of the deployment.
func reachLevel(n *node.Node, verb string, want func(*messages.DeploymentStatus) bool) error {
	for until := time.Now().Add(standbyWait); time.Now().Before(until); time.Sleep(time.Millisecond) {
		if d, err := n.Backend().Deployment(context.Background(), "kjv"); err == nil && want(d) {
			return nil
		}
	}
	return fmt.Errorf("models.%s has no effect within %v", verb, standbyWait)
}
