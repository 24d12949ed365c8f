package hostcache_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/gpu"
	"troupe/actors/hostcache"
	"troupe/actors/kvblock"
	"troupe/actors/supervise"
	"troupe/cuda"
	"troupe/cuda/host"
	"troupe/engine"
	"troupe/engine/llama"
	"troupe/engine/residency"
	"troupe/messages"
	"troupe/testkit"
	"troupe/testkit/reference"
)

// hostMemory counts the host memory that is allocated for images.
type hostMemory struct {
	cuda.Device
	mu   sync.Mutex
	live map[*allocation]bool
}

type allocation struct {
	cuda.HostMemory
	of *hostMemory
}

func (h *hostMemory) AllocHost(bytes int64) (cuda.HostMemory, error) {
	memory, err := h.Device.AllocHost(bytes)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	a := &allocation{memory, h}
	h.live[a] = true
	return a, nil
}

func (a *allocation) Free() error {
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	delete(a.of.live, a)
	return a.HostMemory.Free()
}

// count returns the number of images that have memory.
func (h *hostMemory) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.live)
}

// damage changes a byte of each image.
func (h *hostMemory) damage() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for a := range h.live {
		a.Bytes()[7]++
	}
}

// fixture is a device, its store, the host cache, and their actors.
type fixture struct {
	t      *testing.T
	device cuda.Device
	store  *residency.Store
	images *residency.HostCache
	system *actor.ActorSystem
	disk   *residency.DiskImages // nil: none
	dir    string                // of its images
	events *events
	log    *warnings // of the host cache
	memory *hostMemory
	peer   *testkit.Peer
	cache  *actor.PID
	gpu    *actor.PID
	group  *testkit.Peer // plays the deployments group
	id     int

	revision string // of the files, once it is known
}

// newFixture starts a host cache of the given budget and a gpu actor. Both crash as the middleware says.
func newFixture(t *testing.T, budget int64, inject func(op string) error, crash *testkit.Crash) *fixture {
	t.Helper()
	return newDiskFixture(t, budget, "", 0, inject, crash)
}

// newDiskFixture is like newFixture, with images in a folder.
func newDiskFixture(
	t *testing.T, budget int64, dir string, diskBudget int64, inject func(op string) error, crash *testkit.Crash,
) *fixture {
	t.Helper()
	return newNode(t, testkit.System(t), "", budget, dir, diskBudget, inject, crash, nil)
}

// newNode is like newDiskFixture, with a data plane. The name makes those of its actors unique.
func newNode(
	t *testing.T, sys *actor.ActorSystem, name string, budget int64, dir string, diskBudget int64,
	inject func(op string) error, crash *testkit.Crash, plane hostcache.Plane,
) *fixture {
	t.Helper()
	d, err := host.Open(host.Config{MemoryBytes: 64 << 20, Inject: inject})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	memory := &hostMemory{Device: d, live: make(map[*allocation]bool)}
	f := &fixture{
		t: t, device: d, store: residency.NewStore(d, llama.Loader{}), images: residency.NewHostCache(memory),
		memory: memory,
	}
	f.store.UseImages(f.images)
	f.events, f.log = &events{}, &warnings{}
	// As in a node, the devices are known by their addresses before any actor starts.
	f.gpu = actor.NewPID(sys.Address(), "devices"+name+"/gpu-0")
	weights := &gpu.Devices{
		System: sys, All: []gpu.Device{{Name: "gpu-0", PID: f.gpu, Models: f.store}}, Log: zerolog.Nop(),
	}
	cfg := hostcache.Config{
		Images: f.images, Budget: budget, Devices: weights, Publish: f.events.publish,
		Log: zerolog.New(f.log).Level(zerolog.WarnLevel),
	}
	if dir != "" {
		if f.disk, err = residency.OpenDiskImages(dir); err != nil {
			t.Fatal(err)
		}
		f.store.UseDiskImages(f.disk)
		cfg.Disk, cfg.DiskBudget, f.dir = f.disk, diskBudget, dir
	}
	f.group = testkit.NewPeer(t, sys, "deployments"+name, nil)
	f.system, cfg.Deployments, cfg.Plane = sys, f.group.PID, plane
	var mw []actor.ReceiverMiddleware
	if crash != nil {
		mw = append(mw, crash.Middleware)
	}
	f.cache = testkit.Spawn(t, sys, "hostcache"+name, supervise.Strategy(nil), hostcache.Props(cfg), mw...)
	testkit.SpawnUnder(t, sys, "devices"+name, "gpu-0", supervise.Strategy(nil), gpu.Props(gpu.Config{
		Node: "node", Name: "gpu-0", Info: d.Info(), Models: f.store, HostCache: f.cache,
		HBM:      kvblock.Props(kvblock.Config{Device: "gpu-0"}),
		Strategy: supervise.Strategy(nil), Publish: f.events.publish, Log: zerolog.Nop(),
	}), mw...)
	f.peer = testkit.NewPeer(t, sys, "peer"+name, nil)
	f.peer.Send(f.cache, &messages.ListDeploymentsResult{})
	return f
}

// events are the events that actors have published.
type events struct {
	mu  sync.Mutex
	all []string
}

func (e *events) publish(kind, _, detail string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, kind+": "+detail)
}

// have reports whether there is an event that begins with a text and contains others.
func (e *events) have(begin string, texts ...string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(e.all, func(s string) bool {
		missing := slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(s, text) })
		return strings.HasPrefix(s, begin) && !missing
	})
}

// load loads a model, again until it is loaded, and returns where from.
func (f *fixture) load(path string) *messages.ModelLoaded {
	f.t.Helper()
	for range 100 {
		if r := f.answer(f.request(path)); r.GetLoaded() != nil {
			f.revision = r.GetLoaded().GetRevisionDigest()
			return r.GetLoaded()
		}
	}
	f.t.Fatal("the model is not loaded")
	return nil
}

// request asks for a model.
func (f *fixture) request(path string) (id string) {
	f.id++
	id = fmt.Sprint("load-", f.id)
	f.peer.Send(f.gpu, &messages.LoadModel{
		RequestId: id, Lease: "m-0", Model: "m", Path: path, BlockTokens: 16, KvBlocks: 8, MaxSequences: 2,
		StepTokens: 8, RevisionDigest: f.revision,
	})
	return id
}

// answer waits for an answer; it is nil if there is none within a while, because of a crash.
func (f *fixture) answer(id string) (found *messages.LoadModelResult) {
	for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); time.Sleep(time.Millisecond) {
		for _, r := range testkit.Got[*messages.LoadModelResult](f.peer) {
			if r.GetRequestId() == id {
				return r
			}
		}
	}
	return nil
}

// output returns what a replica computes for a prompt.
func (f *fixture) output(loaded *messages.ModelLoaded) string {
	f.t.Helper()
	e, err := f.store.Open(loaded.GetHandle())
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

// park unloads the model, and waits until its weights have left the device. Like a deployment, it repeats
// the command, which a crash may have lost, and like models.park it parks weights that a crash has left.
func (f *fixture) park() {
	f.t.Helper()
	testkit.Until(f.t, "an empty device", func() bool {
		f.peer.Send(f.gpu, &messages.UnloadModel{Lease: "m-0", Fate: messages.WeightsFate_WEIGHTS_FATE_PARK})
		for end := time.Now().Add(50 * time.Millisecond); time.Now().Before(end); time.Sleep(100 * time.Microsecond) {
			if free, total := f.device.Memory(); free == total {
				return true
			}
		}
		f.peer.Send(f.gpu, &messages.EvictWeights{Park: true})
		return false
	})
}

// status returns the state of the host cache once nothing uses an image.
func (f *fixture) status() (s *messages.HostCacheStatus) {
	f.t.Helper()
	testkit.Until(f.t, "a host cache at rest", func() bool {
		before := len(testkit.Got[*messages.HostCacheStatus](f.peer))
		f.peer.Send(f.cache, &messages.GetHostCache{})
		for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if all := testkit.Got[*messages.HostCacheStatus](f.peer); len(all) > before {
				s = all[len(all)-1]
				return s.GetInUseBytes() == 0 && len(f.images.Held()) == len(s.GetImages())
			}
		}
		return false
	})
	return s
}

func tinyModel(t *testing.T, seed uint64) string {
	return reference.Random(t, reference.Shape{
		Architecture: "LlamaForCausalLM", DType: "BF16", Hidden: 16, Heads: 2, KVHeads: 1,
	}, seed)
}
