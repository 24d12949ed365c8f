package identity_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"troupe/messages"
	"troupe/testkit"
	"troupe/testkit/cluster"
)

// The node is first measured after some rounds. Until the end it may grow by so much: by 3 KiB of
// live heap and 12 KiB of resident memory in each of 700 rounds.
const (
	settled        = 300 // by then the logs of the router, with 1,024 requests, are full
	moreHeap       = 2 << 20
	moreBytes      = 8 << 20
	moreGoroutines = 20
	// goGC makes the node collect its heap often, so that its live heap is a recent one and its resident
	// memory has little garbage.
	goGC = "50"
)

// TestRoundsLeaveNothing parks a model and activates it, several times. The ledger of the device, the
// host cache, the answers and the memory of the process stay as they were.
func TestRoundsLeaveNothing(t *testing.T) {
	t.Setenv("GOGC", goGC)
	// An embedded NATS server would count too: its buffers grow with the bucket's file, up to 8 MiB.
	c := cluster.Up(t, cluster.Config{Nodes: 1, NATS: cluster.External, Devices: devices[2]})
	r := &parkedAndActive{Cluster: c, t: t, model: model{"m", testkit.Model()}}
	ctx := cluster.TestContext(t, time.Minute+time.Duration(*rounds)*5*time.Second)
	own, greedy := asked(t, r.model, prompts[:2], 8)
	for _, q := range own {
		r.requests = append(r.requests, q.Request)
	}
	r.must(c.Deploy(ctx, &messages.DeploymentSpec{Name: r.name, Path: r.path, MaxSequences: new(uint32(maxSequences))}))
	want := r.answers(ctx)
	for i, q := range own[:greedy] {
		if want[i] != q.answer {
			t.Fatalf("%+v, want %+v", want[i], q.answer)
		}
	}
	began, before := time.Now(), usage{}
	for round := range *rounds {
		r.call(ctx, "models.park", &messages.ParkModelRequest{Name: r.name}, &messages.ParkModelResponse{})
		r.await(ctx, messages.DeploymentState_DEPLOYMENT_STATE_PARKED, &r.parked)
		r.call(ctx, "models.activate", &messages.ActivateModelRequest{Name: r.name}, &messages.ActivateModelResponse{})
		r.await(ctx, messages.DeploymentState_DEPLOYMENT_STATE_READY, &r.active)
		if got := r.answers(ctx); !slices.Equal(got, want) {
			t.Fatalf("round %d: %+v, want %+v", round, got, want)
		}
		if round == settled {
			before = r.lowest(ctx)
		}
	}
	t.Logf("%d rounds in %s; parked: %s; active: %s", *rounds, time.Since(began).Round(time.Second), r.parked, r.active)
	if *rounds <= settled {
		return
	}
	after := r.lowest(ctx)
	t.Logf("after %d rounds %+v, after %d %+v", settled, before, *rounds, after)
	if after.liveHeap-before.liveHeap > moreHeap || after.bytes-before.bytes > moreBytes ||
		after.goroutines-before.goroutines > moreGoroutines {
		t.Error("the process has grown")
	}
}

// parkedAndActive is a node with a model, and what its devices and its host cache have when the model is
// parked and when it is active, as of the first round.
type parkedAndActive struct {
	*cluster.Cluster
	t *testing.T
	model
	requests       []cluster.Request
	parked, active string
}

func (r *parkedAndActive) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// call repeats a call that a busy machine answers late.
func (r *parkedAndActive) call(ctx context.Context, subject string, req, res proto.Message) {
	r.t.Helper()
	r.must(cluster.Until(ctx, func() error { return r.Call(ctx, subject, req, res) }))
}

func (r *parkedAndActive) answers(ctx context.Context) []cluster.Answer {
	r.t.Helper()
	all, err := r.Answers(ctx, r.requests)
	r.must(err)
	return all
}

// settledReadings is how often the memory must be the same in the first round: a lease may still go, or an
// image be filled, when the model is already in its state.
const settledReadings = 20

// await waits until the model is in a state and the devices and the host cache are as they were in the
// first round.
func (r *parkedAndActive) await(ctx context.Context, want messages.DeploymentState, first *string) {
	r.t.Helper()
	last, readings := "", 0
	r.must(cluster.Until(ctx, func() error {
		d, err := r.Model(ctx, r.name)
		if err != nil {
			return err
		}
		res := &messages.ListNodesResponse{}
		if err := r.Call(ctx, "nodes.list", &messages.ListNodesRequest{}, res); err != nil {
			return err
		}
		replicas, now := len(d.GetReplicas()), memoryOf(res.GetNodes()[0])
		if d.GetState() != want || (replicas > 0) != (want == messages.DeploymentState_DEPLOYMENT_STATE_READY) ||
			*first != "" && now != *first || res.GetNodes()[0].GetHostCache().GetInUseBytes() > 0 {
			return fmt.Errorf("%s with %d replicas: %s; in the first round: %s", d.GetState(), replicas, now, *first)
		}
		if readings++; now != last {
			last, readings = now, 0
		}
		if *first == "" && readings < settledReadings {
			return fmt.Errorf("not settled: %s", now)
		}
		*first = now
		return nil
	}))
}

// memoryOf describes the memory of devices and host cache.
func memoryOf(n *messages.NodeStatus) (s string) {
	for _, gpu := range n.GetGpus() {
		s += fmt.Sprintf("%d of %d bytes free, budget %v", gpu.GetFreeBytes(), gpu.GetMemoryBytes(), gpu.GetBudget())
		for _, l := range gpu.GetLeases() {
			s += fmt.Sprintf(", %s %d", l.GetKind(), l.GetBytes())
		}
	}
	return s + fmt.Sprintf("; host cache %v", n.GetHostCache())
}

// usage is what a process uses.
type usage struct{ bytes, liveHeap, goroutines int }

// lowest measures the node for ten seconds, since what ended replicas had is garbage only seconds later.
// The requests meanwhile make the node collect its heap.
func (r *parkedAndActive) lowest(ctx context.Context) usage {
	r.t.Helper()
	u := r.measure(ctx)
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for range 20 {
		<-tick.C
		r.answers(ctx)
		now := r.measure(ctx)
		u.bytes, u.liveHeap = min(u.bytes, now.bytes), min(u.liveHeap, now.liveHeap)
		u.goroutines = min(u.goroutines, now.goroutines)
	}
	return u
}

func (r *parkedAndActive) measure(ctx context.Context) (u usage) {
	r.t.Helper()
	var err error
	u.bytes, err = r.Nodes[0].Gauge(ctx, "process_resident_memory_bytes")
	r.must(err)
	u.liveHeap, err = r.Nodes[0].Gauge(ctx, "go_gc_heap_live_bytes")
	r.must(err)
	u.goroutines, err = r.Nodes[0].Gauge(ctx, "go_goroutines")
	r.must(err)
	return u
}
