package gpu_test

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"troupe/actors/gpu"
	"troupe/actors/kvblock"
	"troupe/actors/supervise"
	weights "troupe/core/residency"
	"troupe/core/verify"
	"troupe/cuda"
	"troupe/engine"
	"troupe/engine/residency"
	"troupe/messages"
	"troupe/testkit"
)

// noReaders are the readers of weights that no other device reads.
type noReaders struct{}

func (noReaders) OpenReader(string, uint64, time.Time)  {}
func (noReaders) RevokeReaders(uint64, string)          {}
func (noReaders) ExpireReaders(time.Time)               {}
func (noReaders) EndedReaders() []residency.EndedReader { return nil }
func (noReaders) ForgetReader(string)                   {}
func (noReaders) OnReaderEnded(func())                  {}

// fakeModels implements gpu.Models without a device.
type fakeModels struct {
	noReaders
	mu         sync.Mutex
	held       map[string]residency.Loaded
	given      int // pages for adapters that were given back
	copies     map[uint64]weights.Copy
	loads      int      // of weights
	tickets    []string // of loads
	parked     []string // tickets
	context    int      // tokens; 0: 64
	delay      time.Duration
	fail       error // of weights
	failLease  error
	failResize error
	from       residency.Origin // of weights; zero: disk
	canary     verify.Record
}

func (s *fakeModels) Inspect(path, _ string) (residency.Inspected, error) {
	if path == "missing" {
		return residency.Inspected{}, errors.New("missing: no config.json")
	}
	return residency.Inspected{ModelInfo: s.info()}, nil
}

func (s *fakeModels) info() engine.ModelInfo {
	return engine.ModelInfo{ContextTokens: cmp.Or(s.context, 64), WeightBytes: 3 << 20, KVTokenBytes: 1 << 10}
}

func (s *fakeModels) LoadWeights(
	ctx context.Context, number uint64, from weights.Source, ticket string,
) (weights.Content, error) {
	s.mu.Lock()
	s.loads++
	s.tickets = append(s.tickets, ticket)
	s.mu.Unlock()
	select {
	case <-time.After(s.delay):
	case <-ctx.Done():
		return weights.Content{}, ctx.Err()
	}
	if s.fail != nil {
		return weights.Content{}, s.fail
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	content := weights.Content{Weights: "weights of " + from.Path, Revision: "files of " + from.Path}
	s.copies[number] = weights.Copy{Number: number, Source: from, Content: content}
	return content, nil
}

func (s *fakeModels) ParkWeights(_ context.Context, _ uint64, ticket string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parked = append(s.parked, ticket)
	return nil
}

func (s *fakeModels) FreeWeights(number uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.copies, number)
	return nil
}

func (s *fakeModels) Lease(spec engine.LoadSpec, number uint64, handle string) (residency.Loaded, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failLease != nil {
		return residency.Loaded{}, s.failLease
	}
	content := s.copies[number].Content
	s.held[spec.Lease] = residency.Loaded{LoadSpec: spec, Info: s.info(), KVBlockBytes: 16 << 10, Copy: number,
		AdapterMin: spec.AdapterPages, Handle: handle,
		From:    cmp.Or(s.from, residency.Origin{Source: "disk", Floor: 3 * time.Millisecond}),
		Canary:  s.canary,
		Digests: engine.Digests{Weights: content.Weights, Revision: content.Revision}}
	return s.held[spec.Lease], nil
}

func (s *fakeModels) Copies() (all []weights.Copy) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range slices.Sorted(maps.Keys(s.copies)) {
		all = append(all, s.copies[n])
	}
	return all
}

func (s *fakeModels) Unload(lease string) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, lease)
	return 1, nil
}

func (s *fakeModels) Resize(lease string, blocks int) (residency.Loaded, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, held := s.held[lease]
	if !held || s.failResize != nil {
		return m, cmp.Or(s.failResize, errors.New("not held"))
	}
	m.KVBlocks = blocks
	s.held[lease] = m
	return m, nil
}

func (s *fakeModels) LeaseAdapters(lease string, pages, least int) (residency.Loaded, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, held := s.held[lease]
	if !held || s.failResize != nil {
		return m, cmp.Or(s.failResize, errors.New("not held"))
	}
	m.AdapterPages, m.AdapterMin = cmp.Or(m.AdapterPages, pages), cmp.Or(m.AdapterMin, least)
	s.held[lease] = m
	return m, nil
}

// ResizeAdapters frees no more pages than the test has given back.
func (s *fakeModels) ResizeAdapters(lease string, pages int) (residency.Loaded, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, held := s.held[lease]
	if !held || s.failResize != nil {
		return m, cmp.Or(s.failResize, errors.New("not held"))
	}
	if pages < m.AdapterPages {
		freed := min(m.AdapterPages-pages, s.given)
		s.given -= freed
		pages = m.AdapterPages - freed
	}
	m.AdapterPages = pages
	s.held[lease] = m
	return m, nil
}

func (s *fakeModels) Held() (all []residency.Loaded) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.held {
		all = append(all, l)
	}
	return all
}

func play(t *testing.T, s *fakeModels, mw ...actor.ReceiverMiddleware) (*testkit.Peer, *actor.PID) {
	return playWith(t, s, func(*gpu.Config) {}, mw...)
}

func playWith(t *testing.T, s *fakeModels, change func(*gpu.Config),
	mw ...actor.ReceiverMiddleware) (*testkit.Peer, *actor.PID) {
	s.held, s.copies = map[string]residency.Loaded{}, map[uint64]weights.Copy{}
	sys := testkit.System(t)
	p := testkit.NewPeer(t, sys, "peer", nil)
	cfg := gpu.Config{
		Planner: p.PID, Node: "node", Name: "gpu-0", Info: cuda.Info{MemoryBytes: 16 << 20}, Models: s,
		HBM:      kvblock.Props(kvblock.Config{Device: "gpu-0"}),
		SelfTest: func(context.Context) error { return nil }, Publish: func(string, string, string) {},
		Strategy: supervise.Strategy(nil), Log: zerolog.Nop(),
	}
	change(&cfg)
	return p, testkit.Spawn(t, sys, "gpu-0", supervise.Strategy(nil), gpu.Props(cfg), mw...)
}

func load(id, lease, path string) *messages.LoadModel {
	return &messages.LoadModel{RequestId: id, Lease: lease, Model: path, Path: path, BlockTokens: 16, MaxSequences: 2,
		StepTokens: 8}
}

// last returns the last message of a type that the peer received.
func last[T proto.Message](t *testing.T, p *testkit.Peer) T {
	t.Helper()
	synctest.Wait()
	all := testkit.Got[T](p)
	if len(all) == 0 {
		t.Fatal("no answer")
	}
	return all[len(all)-1]
}

type (
	loadResult   = *messages.LoadModelResult
	unloadResult = *messages.UnloadModelResult
	status       = *messages.GpuStatus
)

func TestConcurrentRequestsShareLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeModels{delay: time.Second}
		p, pid := play(t, s)
		p.Send(pid, load("1", "m-0", "m"))
		p.Send(pid, load("2", "m-0", "m"))
		time.Sleep(2 * time.Second)
		if got := last[loadResult](t, p); got.GetLoaded() == nil || len(testkit.Got[loadResult](p)) != 2 ||
			s.loads != 1 {
			t.Errorf("%v, %d answers, %d loads", got, len(testkit.Got[loadResult](p)), s.loads)
		}
		p.Send(pid, load("3", "m-0", "m"))
		if got := last[loadResult](t, p); !got.GetLoaded().GetAdopted() || got.GetRequestId() != "3" || s.loads != 1 {
			t.Errorf("third request: %v", got)
		}
		p.Send(pid, &messages.GetGpu{})
		if got := last[status](t, p); got.GetState() != messages.GpuState_GPU_STATE_SERVING ||
			got.GetFreeBytes() >= got.GetMemoryBytes()-4<<20 {
			t.Errorf("%v", got)
		}
	})
}

func TestRefusedLoadLeasesNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		shelf *fakeModels
		ask   *messages.LoadModel
		want  messages.Reason
	}{
		"no such model": {&fakeModels{}, load("1", "m-0", "missing"), messages.Reason_REASON_LOAD_FAILED},
		"does not fit": {&fakeModels{}, &messages.LoadModel{Lease: "m-0", Path: "m", BlockTokens: 16,
			KvBlocks: 1 << 20}, messages.Reason_REASON_NO_MEMORY},
		"damaged": {&fakeModels{fail: errors.New("truncated")}, load("1", "m-0", "m"),
			messages.Reason_REASON_LOAD_FAILED},
		"device is full": {&fakeModels{fail: cuda.ErrOutOfMemory}, load("1", "m-0", "m"),
			messages.Reason_REASON_NO_MEMORY},
		"another engine": {&fakeModels{}, &messages.LoadModel{Lease: "m-0", Path: "m", BlockTokens: 16,
			Engine: "simulated"}, messages.Reason_REASON_UNSUPPORTED},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, pid := play(t, tc.shelf)
				p.Send(pid, tc.ask)
				if got := last[loadResult](t, p).GetRefused(); got.GetReason() != tc.want || got.GetDetail() == "" {
					t.Errorf("%v", got)
				}
				p.Send(pid, &messages.GetGpu{})
				if got := last[status](t, p); got.GetFreeBytes() != got.GetMemoryBytes() ||
					got.GetState() != messages.GpuState_GPU_STATE_IDLE {
					t.Errorf("%v", got)
				}
			})
		})
	}
}

func TestUnloadFreesMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, pid := play(t, &fakeModels{})
		p.Send(pid, load("1", "m-0", "m"))
		synctest.Wait()
		for range 2 { // an unload also succeeds if the model is not held
			p.Send(pid, &messages.UnloadModel{RequestId: "u", Lease: "m-0",
				Fate: messages.WeightsFate_WEIGHTS_FATE_DROP})
			if got := last[unloadResult](t, p); got.GetUnloaded() == nil {
				t.Errorf("%v", got)
			}
		}
		p.Send(pid, &messages.GetGpu{})
		if got := last[status](t, p); got.GetFreeBytes() != got.GetMemoryBytes() {
			t.Errorf("%v", got)
		}
	})
}

// TestCrashRebuildsLedger checks that a restart rebuilds the ledger from the models on the device,
// and that a lost load can be requested again.
func TestCrashRebuildsLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeModels{delay: time.Second}
		crash := &testkit.Crash{On: "*messages.UnloadModel", Times: 1}
		p, pid := play(t, s, crash.Middleware)
		p.Send(pid, load("1", "m-0", "m"))
		time.Sleep(2 * time.Second)
		p.Send(pid, load("2", "n-0", "n"))
		p.Send(pid, &messages.UnloadModel{Lease: "m-0"})
		time.Sleep(2 * time.Second)
		p.Send(pid, &messages.GetGpu{})
		got := last[status](t, p)
		for _, l := range got.GetLeases() {
			if l.GetOwner() != "m-0" && l.GetOwner() != "weights-1" {
				t.Errorf("%s holds memory, though its load was lost", l.GetOwner())
			}
		}
		if len(got.GetLeases()) == 0 {
			t.Error("the model on the device has no lease")
		}
		p.Send(pid, load("3", "n-0", "n"))
		time.Sleep(2 * time.Second)
		if got := last[loadResult](t, p); got.GetLoaded().GetLease() != "n-0" {
			t.Errorf("%v", got)
		}
	})
}
