package gpu_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/gpu"
	"troupe/actors/kvblock"
	"troupe/actors/supervise"
	"troupe/cuda"
	"troupe/cuda/host"
	"troupe/engine"
	"troupe/engine/llama"
	"troupe/engine/residency"
	"troupe/messages"
	"troupe/testkit"
	"troupe/testkit/models"
)

// devices are the devices of a node, with their stores and actors. The direct copies from other devices
// can be held and counted.
type devices struct {
	t      *testing.T
	peer   *testkit.Peer
	peers  *gpu.Devices
	all    []*oneDevice
	want   string // output of the model
	model  string
	events []string

	revision string
	asked    int
	mu       sync.Mutex
}

type oneDevice struct {
	cuda.Device
	of     *devices
	models *residency.Store
	pid    *actor.PID

	mu     sync.Mutex
	copies int           // direct copies to this device
	holdAt int           // first copy that waits for the gate; 0: none
	fails  bool          // this copy fails
	held   chan struct{} // closed when one waits
	gate   chan struct{}
}

// inject holds a direct copy, or lets it fail.
func (d *oneDevice) inject(op string) error {
	if op != "copy" {
		return nil
	}
	d.mu.Lock()
	d.copies++
	hold, first := d.holdAt > 0 && d.copies >= d.holdAt, d.copies == d.holdAt
	d.mu.Unlock()
	if !hold {
		return nil
	}
	if first {
		close(d.held)
	}
	<-d.gate
	if d.fails && first {
		return errors.New("the link is broken")
	}
	return nil
}

// newDevices starts devices. A model of ten parts is on the first, and its folder is deleted.
func newDevices(t *testing.T, count int, crash *testkit.Crash) *devices {
	t.Helper()
	f := &devices{t: t, model: filepath.Join(t.TempDir(), "model")}
	if err := models.Random(testkit.Model(), f.model, 40<<20, cuda.F32, 1); err != nil {
		t.Fatal(err)
	}
	sys := testkit.System(t)
	peers := &gpu.Devices{System: sys, Log: zerolog.Nop()}
	for i := range count {
		one := &oneDevice{of: f, held: make(chan struct{}), gate: make(chan struct{})}
		d, err := host.Open(host.Config{Index: i, MemoryBytes: 128 << 20, Inject: one.inject})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
		one.Device, one.models = d, residency.NewStore(d, llama.Loader{})
		one.models.UseDevices(peers)
		name := fmt.Sprint("gpu-", i)
		var mw []actor.ReceiverMiddleware
		if crash != nil && i == 0 {
			mw = append(mw, crash.Middleware)
		}
		one.pid = testkit.Spawn(t, sys, name, supervise.Strategy(nil), gpu.Props(gpu.Config{
			Node: "node", Name: name, Info: d.Info(), Models: one.models,
			HBM:      kvblock.Props(kvblock.Config{Device: name}),
			SelfTest: func(context.Context) error { return nil },
			Publish: func(kind, _, detail string) {
				f.mu.Lock()
				defer f.mu.Unlock()
				f.events = append(f.events, kind+": "+detail)
			},
			Strategy: supervise.Strategy(nil), Log: zerolog.Nop(),
		}), mw...)
		peers.All = append(peers.All, gpu.Device{Name: name, PID: one.pid, Models: one.models})
		f.all = append(f.all, one)
	}
	f.peers = peers
	f.peer = testkit.NewPeer(t, sys, "peer", nil)
	first := f.load(0)
	f.revision, f.want = first.GetRevisionDigest(), f.output(0, first)
	if err := os.RemoveAll(f.model); err != nil {
		t.Fatal(err)
	}
	return f
}

// request asks for the model on a device.
func (f *devices) request(i int) (id string) {
	f.asked++
	id = fmt.Sprint("load-", f.asked)
	f.peer.Send(f.all[i].pid, &messages.LoadModel{
		RequestId: id, Lease: fmt.Sprint("m-", i), Model: "m", Path: f.model, BlockTokens: 16, KvBlocks: 8,
		MaxSequences: 2, StepTokens: 8, RevisionDigest: f.revision,
	})
	return id
}

func (f *devices) result(id string) (found *messages.LoadModelResult) {
	testkit.Until(f.t, "the answer to "+id, func() bool {
		for _, r := range testkit.Got[*messages.LoadModelResult](f.peer) {
			if r.GetRequestId() == id {
				found = r
			}
		}
		return found != nil
	})
	return found
}

func (f *devices) load(i int) *messages.ModelLoaded {
	f.t.Helper()
	r := f.result(f.request(i))
	if r.GetLoaded() == nil {
		f.t.Fatalf("gpu-%d: %v", i, r.GetRefused())
	}
	return r.GetLoaded()
}

// output returns what a replica computes for a prompt.
func (f *devices) output(i int, loaded *messages.ModelLoaded) string {
	f.t.Helper()
	e, err := f.all[i].models.Open(loaded.GetHandle())
	if err != nil {
		f.t.Fatal(err)
	}
	defer e.Close()
	tokens, err := e.Step(f.t.Context(), []engine.Sequence{{
		Tokens: []uint32{1, 5, 9, 40}, Blocks: []int32{0}, Sample: true,
	}})
	if err != nil {
		f.t.Fatal(err)
	}
	return fmt.Sprintf("%+v", tokens)
}

// weights returns what a device reports about its weights.
func (f *devices) weights(i int) []*messages.GpuWeights {
	before := len(testkit.Got[status](f.peer))
	f.peer.Send(f.all[i].pid, &messages.GetGpu{})
	testkit.Until(f.t, "a status", func() bool { return len(testkit.Got[status](f.peer)) > before })
	return last[status](f.t, f.peer).GetWeights()
}

// begin begins to load the model on a device, and holds its direct copies from the nth on.
func (f *devices) begin(i, holdAt int) (id string) {
	f.all[i].holdAt = holdAt
	id = f.request(i)
	<-f.all[i].held
	return id
}

const partsOfModel = 10

// TestLoadFromOtherDevice loads a model from another device of the node: there is no folder, no image and no
// host cache. The weights are in use there, or on standby.
func TestLoadFromOtherDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newDevices(t, 3, nil)
		for to := 1; to < 3; to++ {
			loaded := f.load(to)
			if m := loaded.GetMetrics(); m.GetSource() != "device gpu-0" || m.GetWhy() == "" || m.GetBytes() < 39<<20 {
				t.Errorf("from %v", m)
			}
			if got := f.output(to, loaded); got != f.want {
				t.Errorf("gpu-%d: %s, want %s", to, got, f.want)
			}
			if n := f.all[to].copies; n < partsOfModel {
				t.Errorf("%d direct copies", n)
			}
			f.peer.Send(f.all[0].pid, &messages.UnloadModel{Lease: "m-0"}) // standby from here on
			ended := time.Now()
			testkit.Until(t, "no readers", func() bool { return f.weights(0)[0].GetReaders() == 0 })
			if took := time.Since(ended); took > 500*time.Millisecond {
				t.Errorf("the reader ended after %v", took)
			}
		}
		for i, one := range f.all { // a device is no source of its own
			sources := f.peers.Open(t.Context(), f.revision, one.Info(), one.models)
			for _, s := range sources {
				if s.Name() == fmt.Sprint("device gpu-", i) || s.Close() != nil {
					t.Errorf("gpu-%d may read %s", i, s.Name())
				}
			}
			if len(sources) != 2 {
				t.Errorf("%d sources for gpu-%d", len(sources), i)
			}
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if !slices.ContainsFunc(f.events, func(e string) bool {
			return strings.HasPrefix(e, "weights.loaded: m-1") && strings.Contains(e, "from device gpu-0 in")
		}) {
			t.Errorf("events %q", f.events)
		}
	})
}

// TestWeightsAreNotEvictedUnderReader evicts weights that another device copies, while the actor of their
// device crashes or not. They stay until the reader has ended.
func TestWeightsAreNotEvictedUnderReader(t *testing.T) {
	for _, times := range []int64{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			crash := &testkit.Crash{On: "*messages.DeviceFailed", Times: times}
			f := newDevices(t, 2, crash)
			f.peer.Send(f.all[0].pid, &messages.UnloadModel{Lease: "m-0"})
			id := f.begin(1, 4)
			f.peer.Send(f.all[0].pid, &messages.DeviceFailed{}) // crashes, or is observed to be well
			synctest.Wait()
			f.peer.Send(f.all[0].pid, &messages.EvictWeights{})
			w := f.weights(0)
			if len(w) != 1 || w[0].GetReaders() != 1 {
				t.Errorf("after the eviction: %v", w)
			}
			if free, total := f.all[0].Memory(); total-free < 39<<20 {
				t.Error("the weights were freed while they were read")
			}
			close(f.all[1].gate)
			loaded := f.result(id).GetLoaded()
			if source := loaded.GetMetrics().GetSource(); source != "device gpu-0" || f.output(1, loaded) != f.want {
				t.Errorf("from %s", source)
			}
			testkit.Until(t, "an empty device", func() bool { return len(f.weights(0)) == 0 })
			if free, total := f.all[0].Memory(); free != total {
				t.Errorf("%d bytes are left", total-free)
			}
		})
	}
}

// TestNextDeviceGoesOn loses the source device in the middle of a load, by command or because its memory is
// needed for too long, or breaks the copies from it. The next device delivers the rest.
func TestNextDeviceGoesOn(t *testing.T) {
	for name, c := range map[string]struct {
		stop func(*devices)
		why  string
	}{
		"lost": {func(f *devices) {
			f.peer.Send(f.all[0].pid, &messages.QuarantineGpu{RequestId: "q", Detail: "test"})
			time.Sleep(1500 * time.Millisecond)
		}, "the weights leave gpu-0"},
		"needed": {func(f *devices) {
			f.peer.Send(f.all[0].pid, &messages.UnloadModel{Lease: "m-0", Fate: messages.WeightsFate_WEIGHTS_FATE_DROP})
			time.Sleep(4 * time.Second)
		}, "its memory is needed"},
		"broken": {func(f *devices) { f.all[1].fails = true }, "the link is broken"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newDevices(t, 3, nil)
				f.load(2)
				id := f.begin(1, 4)
				c.stop(f)
				close(f.all[1].gate)
				r := f.result(id)
				m := r.GetLoaded().GetMetrics()
				if m.GetSource() != "device gpu-2" || !strings.Contains(m.GetWhy(), c.why) {
					t.Errorf("%v, %v", m, r.GetRefused())
				}
				if got := f.output(1, r.GetLoaded()); got != f.want {
					t.Errorf("%s, want %s", got, f.want)
				}
				if n := f.all[1].copies; n > partsOfModel+5 { // and those in flight
					t.Errorf("%d direct copies of %d parts", n, partsOfModel)
				}
				if name == "needed" {
					testkit.Until(t, "an empty device", func() bool { return len(f.weights(0)) == 0 })
				}
			})
		})
	}
}
