package members

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/nats-io/nats.go/jetstream"

	"troupe/cluster/bucket"
)

func TestLease(t *testing.T) {
	s := startServer(t)
	n := s.joinAll("a", "b")
	a, b := n[0], n[1]
	first, ok, err := a.Acquire(t.Context(), "deployment.m")
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if again, ok, err := a.Acquire(t.Context(), "deployment.m"); again != first || !ok || err != nil {
		t.Errorf("the holder got term %d (%v, %v), want its own %d", again, ok, err, first)
	}
	if _, ok, err := b.Acquire(t.Context(), "deployment.m"); ok || err != nil {
		t.Errorf("two members hold the lease: %v, %v", ok, err)
	}
	b.until("a holds it", func() bool {
		holder, term, ok := b.Holder("deployment.m")
		return ok && term == first && holder.GetName() == "a"
	})
	if err := b.Release(t.Context(), "deployment.m", first-1); err != nil {
		t.Errorf("release of an old term: %v", err)
	}
	if _, _, ok := a.Holder("deployment.m"); !ok {
		t.Error("releasing an old term released the current one")
	}
	if err := a.Release(t.Context(), "deployment.m", first); err != nil {
		t.Fatal(err)
	}
	if _, _, ok := a.Holder("deployment.m"); ok {
		t.Error("released, and still held")
	}
	b.until("b has it", func() bool { _, ok, err = b.Acquire(t.Context(), "deployment.m"); return ok && err == nil })
	if _, second, _ := b.Holder("deployment.m"); second <= first {
		t.Errorf("term %d after %d", second, first)
	}
	a.until("notification of the lease", func() bool {
		return a.received(func(c Change) bool { return c.LeasesChanged })
	})
}

// leaseOp is an operation on a lease.
type leaseOp struct {
	member  string
	release bool
	term    uint64
}

// leaseResult is the result of an acquisition.
type leaseResult struct {
	ok   bool
	term uint64
}

// leaseModel models a lease as one register with a holder and a term that grows.
var leaseModel = porcupine.Model{
	Init: func() any { return roleHolder{} },
	Step: func(state, input, output any) (bool, any) {
		held, op, got := state.(roleHolder), input.(leaseOp), output.(leaseResult)
		switch {
		case op.release: // only the holder releases its own term
			return true, roleHolder{"", held.term}
		case got.ok && held.member == "":
			return got.term > held.term, roleHolder{op.member, got.term}
		case got.ok:
			return held.member == op.member && held.term == got.term, held
		}
		// A refusal may be stale. It shows only that some member held the lease, and changes nothing.
		return true, held
	},
}

// TestLeaseIsLinearizable lets several members acquire and release one lease as fast as they can.
// The history must be linearizable.
func TestLeaseIsLinearizable(t *testing.T) {
	const rounds = 40
	s := startServer(t)
	var nodes []*node
	for _, name := range []string{"a", "b", "c", "d"} {
		nodes = append(nodes, s.join(name))
	}
	var mu sync.Mutex
	var history []porcupine.Operation
	began := time.Now()
	record := func(client int, in leaseOp, do func() leaseResult) leaseResult {
		op := porcupine.Operation{ClientId: client, Input: in, Call: int64(time.Since(began))}
		out := do()
		op.Output, op.Return = out, int64(time.Since(began))
		mu.Lock()
		defer mu.Unlock()
		history = append(history, op)
		return out
	}
	var contenders sync.WaitGroup
	terms := make([]int, len(nodes))
	for i, n := range nodes {
		contenders.Go(func() {
			name := n.Self().GetName()
			for terms[i] < rounds {
				got := record(i, leaseOp{member: name}, func() leaseResult {
					term, ok, err := n.Acquire(t.Context(), "planner")
					if err != nil {
						t.Error(err)
					}
					return leaseResult{ok, term}
				})
				if t.Failed() {
					return
				}
				if !got.ok {
					continue
				}
				terms[i]++
				record(i, leaseOp{name, true, got.term}, func() leaseResult {
					if err := n.Release(t.Context(), "planner", got.term); err != nil {
						t.Error(err)
					}
					return leaseResult{}
				})
			}
		})
	}
	contenders.Wait()
	// There are many refusals, and they carry no information.
	var granted []porcupine.Operation
	for _, op := range history {
		if op.Output.(leaseResult).ok || op.Input.(leaseOp).release {
			granted = append(granted, op)
		}
	}
	if len(granted) != 2*rounds*len(nodes) {
		t.Fatalf("%d of %d terms", len(granted)/2, rounds*len(nodes))
	}
	if !porcupine.CheckOperations(leaseModel, granted) {
		t.Error("two members held the lease at once, or a term did not grow")
	}
}

// TestLostReleaseDoesNotBlockRole takes the revision of a release out of the bucket, as a rollback
// does after which other keys have got later revisions. The role can be acquired, in a later term.
func TestLostReleaseDoesNotBlockRole(t *testing.T) {
	s := startServer(t)
	a := s.joinAll("a")[0]
	first, _, err := a.Acquire(t.Context(), "r")
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Release(t.Context(), "r", first); err != nil {
		t.Fatal(err)
	}
	conn, err := s.server.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "KV_"+Bucket)
	if err != nil {
		t.Fatal(err)
	}
	released, err := a.kv.get(t.Context(), leaseKey("r"))
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context(), jetstream.WithPurgeSubject(bucket.Subject(Bucket, leaseKey("r")))); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if term, ok, err := a.Acquire(ctx, "r"); err != nil || !ok || term <= released.revision {
		t.Errorf("term %d after %d, %v, %v", term, released.revision, ok, err)
	}
}
