// Package conformance checks that a kind of backend serves sequences as the cluster expects it: that its
// replicas answer the messages of package backend, and that what they report about themselves is what they do.
package conformance

import (
	"fmt"
	"slices"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/core/backend"
	"troupe/messages"
	"troupe/testkit"
)

// Replicas starts the backends under test.
type Replicas struct {
	Engine *messages.EngineSpec // nil: native
	// Start starts a replica that is named "m-0", of model "m". Its blocks have 16 tokens. It reports to the
	// deployment, and returns before it serves.
	Start func(t *testing.T, sys *actor.ActorSystem, engine *messages.EngineSpec, deployment *actor.PID) *actor.PID
}

// Operations are the operations of a backend, by the messages that carry them to a replica.
var Operations = map[string][]string{
	"Submit":        {"SubmitSequence", "GetSequence"},
	"Cancel":        {"CancelSequence"},
	"Drain":         {"DrainReplica", "MigrateSequences", "SaveSequences"},
	"LoadAdapter":   {"SubmitSequence", "ApplyAdapter"},
	"UnloadAdapter": {"ForgetAdapter"},
	"Sleep, Wake":   {"SetReplicaLevel"},
	"Capabilities":  {"GetReplica"},
	"Events":        {"TokensEmitted", "SequenceInterrupted", "ReplicaChanged", "ReplicaAnnounced"},
}

// Run checks a kind of backend. Each check has a replica of its own.
func Run(t *testing.T, of Replicas) {
	for name, check := range map[string]func(*run){
		"capabilities": checkCapabilities, "submit": checkSubmit, "resume": checkResume, "cancel": checkCancel,
		"drain": checkDrain, "migrate": checkMigrate, "sleep": checkSleep, "adapters": checkAdapters,
		"logprobs": checkLogprobs,
	} {
		t.Run(name, func(t *testing.T) { check(start(t, of)) })
	}
}

// run is a replica under test. The test is its deployment, and the session of its sequences.
type run struct {
	t                  *testing.T
	deployment, client *testkit.Peer
	replica            *actor.PID
	spec               backend.Spec
	can                backend.Set
}

func start(t *testing.T, of Replicas) *run {
	sys := testkit.System(t)
	r := &run{
		t: t, deployment: testkit.NewPeer(t, sys, "deployment", nil), client: testkit.NewPeer(t, sys, "client", nil),
		spec: backend.SpecOf(of.Engine.GetKind(), of.Engine.GetWithout()),
	}
	r.can = r.spec.Capabilities()
	r.replica = of.Start(t, sys, of.Engine, r.deployment.PID)
	r.wait("the load", func() bool { return r.status().GetRevisionDigest() != "" })
	r.deployment.Send(r.replica, &messages.ConfirmRevision{RevisionDigest: r.status().GetRevisionDigest()})
	r.waitState(messages.ReplicaState_REPLICA_STATE_SERVING)
	return r
}

func (r *run) wait(what string, condition func() bool) {
	r.t.Helper()
	testkit.Until(r.t, what, condition)
}

// status asks the replica for its status.
func (r *run) status() *messages.ReplicaStatus {
	r.deployment.Send(r.replica, &messages.GetReplica{RequestId: "status"})
	all := testkit.Got[*messages.ReplicaStatus](r.deployment)
	if len(all) == 0 {
		return nil
	}
	return all[len(all)-1]
}

func (r *run) waitState(s messages.ReplicaState) {
	r.t.Helper()
	r.wait(s.String(), func() bool { return r.status().GetState() == s })
}

// spec returns a sequence that samples with a seed, and that only the number of tokens ends.
func sequence(seed uint64, tokens uint32) *messages.SequenceSpec {
	return &messages.SequenceSpec{
		Model: "m", Prompt: []uint32{5, 6, 7, 8}, Priority: messages.PriorityClass_PRIORITY_CLASS_STANDARD,
		Sampling: &messages.SamplingParams{MaxTokens: tokens, Temperature: 0.9, Seed: seed, IgnoreEos: true},
	}
}

func (r *run) submit(id string, seq *messages.SequenceSpec, output ...uint32) {
	r.client.Send(r.replica, &messages.SubmitSequence{RequestId: id, Sequence: seq, Output: output})
}

// tokens returns the tokens of a sequence from an index on, and whether it has finished.
func (r *run) tokens(id string, first int) (tokens []uint32, done bool) {
	r.t.Helper()
	for _, m := range testkit.Got[*messages.TokensEmitted](r.client) {
		if m.GetRequestId() != id {
			continue
		}
		if int(m.GetFirstIndex()) != first+len(tokens) {
			r.t.Fatalf("%s: tokens from %d after %d", id, m.GetFirstIndex(), first+len(tokens))
		}
		tokens = append(tokens, m.GetTokens()...)
		done = done || m.GetFinish() != 0
	}
	return tokens, done
}

// serve submits a sequence and returns all of its tokens.
func (r *run) serve(id string, seq *messages.SequenceSpec, output ...uint32) (tokens []uint32) {
	r.t.Helper()
	r.submit(id, seq, output...)
	r.wait("the end of "+id, func() (done bool) {
		tokens, done = r.tokens(id, len(output))
		return done
	})
	return tokens
}

// refusal waits until a sequence is refused.
func (r *run) refusal(id string) (why *messages.Refused) {
	r.t.Helper()
	r.wait("the refusal of "+id, func() bool {
		for _, m := range testkit.Got[*messages.SubmitSequenceResult](r.client) {
			if m.GetRequestId() == id && m.GetRefused() != nil {
				why = m.GetRefused()
			}
		}
		return why != nil
	})
	return why
}

func (r *run) checkUnsupported(what string, why *messages.Refused, c backend.Capability) {
	r.t.Helper()
	if why.GetReason() != messages.Reason_REASON_UNSUPPORTED {
		r.t.Errorf("%s without %s: %v", what, c, why)
	}
}

func checkCapabilities(r *run) {
	b := r.status().GetBackend()
	if b.GetKind() != string(r.spec.Kind) || !slices.Equal(b.GetCapabilities(), r.can.Names()) {
		r.t.Errorf("reports %v, want %s with %v", b, r.spec.Kind, r.can.Names())
	}
}

func checkSubmit(r *run) {
	first := r.serve("a", sequence(1, 40))
	if len(first) != 40 {
		r.t.Fatalf("%d tokens, want 40", len(first))
	}
	if again := r.serve("b", sequence(1, 40)); r.can.Has(backend.Seeds) && !slices.Equal(first, again) {
		r.t.Errorf("other tokens for the same seed:\n%v\n%v", first, again)
	}
	if other := r.serve("c", sequence(2, 40)); slices.Equal(first, other) {
		r.t.Error("the same tokens for another seed")
	}
}

func checkResume(r *run) {
	whole := r.serve("a", sequence(1, 40))
	if !r.can.Has(backend.Resume) {
		r.submit("b", sequence(1, 40), whole[:17]...)
		r.checkUnsupported("a sequence with output", r.refusal("b"), backend.Resume)
		return
	}
	if rest := r.serve("b", sequence(1, 40), whole[:17]...); !slices.Equal(rest, whole[17:]) {
		r.t.Errorf("continued with\n%v, want\n%v", rest, whole[17:])
	}
}

// long is a sequence that does not end while the test looks at it.
func (r *run) long(id string) {
	r.t.Helper()
	r.submit(id, sequence(1, 900))
	r.wait("tokens of "+id, func() bool {
		tokens, _ := r.tokens(id, 0)
		return len(tokens) > 0
	})
}

func checkCancel(r *run) {
	r.long("a")
	r.client.Send(r.replica, &messages.CancelSequence{RequestId: "a"})
	r.wait("no sequence", func() bool { s := r.status(); return s.GetRunning()+s.GetWaiting() == 0 })
	if _, done := r.tokens("a", 0); done {
		r.t.Error("a cancelled sequence has finished")
	}
}

func checkDrain(r *run) {
	r.long("a")
	r.deployment.Send(r.replica, &messages.DrainReplica{RequestId: "drain", Replica: "m-0", Model: "m"})
	r.submit("b", sequence(1, 4))
	if why := r.refusal("b"); why.GetReason() != messages.Reason_REASON_DRAINING {
		r.t.Errorf("submitted to a draining replica: %v", why)
	}
	r.client.Send(r.replica, &messages.CancelSequence{RequestId: "a"})
	r.wait("the end of the drain", func() bool {
		return len(testkit.Got[*messages.ReplicaDrained](r.deployment)) > 0
	})
}

// checkMigrate checks what becomes of a running sequence where KV blocks cannot be moved.
func checkMigrate(r *run) {
	if r.can.Has(backend.KVMigration) {
		return // package replica tests migrations
	}
	r.long("a")
	migrate := func(id string) *messages.SequenceMigration {
		r.deployment.Send(r.replica, &messages.MigrateSequences{RequestId: id, Target: "m-1",
			TargetActor: &messages.ActorRef{Id: "m-1"}})
		var result *messages.MigrateSequencesResult
		r.wait("the answer to "+id, func() bool {
			for _, m := range testkit.Got[*messages.MigrateSequencesResult](r.deployment) {
				if m.GetRequestId() == id {
					result = m
				}
			}
			return result != nil
		})
		if len(result.GetSequences()) != 1 || result.GetSequences()[0].GetMoved() {
			r.t.Fatalf("migrating: %v", result)
		}
		return result.GetSequences()[0]
	}
	interrupted := func() int { return len(testkit.Got[*messages.SequenceInterrupted](r.client)) }
	if stays := migrate("one"); interrupted() != 0 {
		r.t.Errorf("interrupted where it could stay: %s", stays.GetDetail())
	}
	r.deployment.Send(r.replica, &messages.DrainReplica{RequestId: "drain", Replica: "m-0", Model: "m"})
	r.waitState(messages.ReplicaState_REPLICA_STATE_DRAINING)
	left := migrate("two")
	r.t.Log(left.GetDetail())
	if !r.can.Has(backend.Resume) {
		if tokens, _ := r.tokens("a", 0); interrupted() != 0 || len(tokens) == 0 {
			r.t.Error("interrupted, and nothing can continue it")
		}
		return
	}
	r.wait("the interruption", func() bool { return interrupted() == 1 })
	r.wait("one sequence counted as requeued", func() bool { return r.status().GetDepartures().GetRequeued() == 1 })
}

func checkSleep(r *run) {
	if !r.can.Has(backend.Standby) {
		return // the deployment asks for no such level
	}
	r.deployment.Send(r.replica, &messages.SetReplicaLevel{Replica: "m-0", Model: "m",
		Level: messages.Level_LEVEL_STANDBY})
	r.waitState(messages.ReplicaState_REPLICA_STATE_STANDBY)
	r.deployment.Send(r.replica, &messages.SetReplicaLevel{Replica: "m-0", Model: "m",
		Level: messages.Level_LEVEL_ACTIVE})
	r.waitState(messages.ReplicaState_REPLICA_STATE_SERVING)
	if tokens := r.serve("a", sequence(1, 8)); len(tokens) != 8 {
		r.t.Errorf("after standby: %d tokens, want 8", len(tokens))
	}
}

func checkAdapters(r *run) {
	if r.can.Has(backend.Adapters) {
		return // package replica tests adapters
	}
	seq := sequence(1, 4)
	seq.Adapter, seq.AdapterSpec = "x", &messages.AdapterSpec{Name: "x", Model: "m", Revision: 1}
	r.submit("a", seq)
	r.checkUnsupported("a sequence with an adapter", r.refusal("a"), backend.Adapters)
}

func checkLogprobs(r *run) {
	seq := sequence(1, 4)
	seq.Sampling.Logprobs = true
	r.serve("a", seq)
	n := 0
	for _, m := range testkit.Got[*messages.TokensEmitted](r.client) {
		for _, p := range m.GetLogprobs() {
			if p.GetLogprob() < 0 {
				n++
			}
		}
	}
	if r.can.Has(backend.Logprobs) && n != 4 {
		r.t.Errorf("%d log-probabilities, want 4", n)
	}
}

// String returns the kind of the backend.
func (r Replicas) String() string {
	return fmt.Sprint(backend.SpecOf(r.Engine.GetKind(), r.Engine.GetWithout()))
}
