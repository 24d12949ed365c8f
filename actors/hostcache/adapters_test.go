package hostcache_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/adapter"
	"troupe/actors/hostcache"
	"troupe/actors/supervise"
	core "troupe/core/hostcache"
	"troupe/cuda"
	"troupe/cuda/host"
	"troupe/engine"
	"troupe/engine/llama"
	"troupe/engine/residency"
	"troupe/messages"
	"troupe/testkit"
)

// adapterNode is a host cache and two replicas, each with a device and an adapter pool of its own. The
// replicas pin adapters, and nothing else.
type adapterNode struct {
	t        *testing.T
	sys      *actor.ActorSystem
	images   *residency.HostCache
	memory   *hostMemory
	events   *events
	peer     *testkit.Peer
	cache    *actor.PID
	replicas [2]*adapterReplica
	deleted  atomic.Pointer[string] // the adapter that is not registered any longer
}

// adapterReplica is the replica of a pool. Its state is changed by its actor.
type adapterReplica struct {
	device cuda.Device
	store  *residency.AdapterCache
	pid    *actor.PID
	pool   *actor.PID
	pins   map[string]*messages.AdapterSpec // by request
	pinned map[string]bool                  // requests that hold their adapter
	failed []string
	counts *messages.AdapterCounts
}

// slowFiles takes a while to read the files of an adapter.
type slowFiles struct{ llama.Loader }

func (l slowFiles) OpenAdapter(model, path string, on cuda.Info) (engine.AdapterFile, error) {
	file, err := l.Loader.OpenAdapter(model, path, on)
	read := file.Read
	file.Read = func(ctx context.Context, into []byte) error {
		time.Sleep(50 * time.Millisecond)
		return read(ctx, into)
	}
	return file, err
}

type do func(ctx actor.Context)

func newAdapterNode(t *testing.T, budget int64, crash *testkit.Crash) *adapterNode {
	sys := testkit.System(t)
	n := &adapterNode{t: t, sys: sys, events: &events{}}
	var devices []cuda.Device
	for i := range n.replicas {
		d, err := host.Open(host.Config{Index: i, MemoryBytes: 64 << 20})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
		devices = append(devices, d)
	}
	n.memory = &hostMemory{Device: devices[0], live: make(map[*allocation]bool)}
	n.images = residency.NewHostCache(n.memory, devices[1])
	var mw []actor.ReceiverMiddleware
	if crash != nil {
		mw = append(mw, crash.Middleware)
	}
	group := testkit.NewPeer(t, sys, "deployments", nil)
	n.cache = testkit.Spawn(t, sys, "hostcache", supervise.Strategy(nil), hostcache.Props(hostcache.Config{
		Images: n.images, Budget: budget, Publish: n.events.publish, Deployments: group.PID, Log: zerolog.Nop(),
		AdapterDeleted: func(_, key string) bool { gone := n.deleted.Load(); return gone != nil && *gone == key },
	}), mw...)
	n.peer = testkit.NewPeer(t, sys, "peer", nil)
	n.peer.Send(n.cache, &messages.ListDeploymentsResult{})
	for i, d := range devices {
		n.replicas[i] = n.newReplica(sys, i, d, mw)
	}
	return n
}

func (n *adapterNode) newReplica(sys *actor.ActorSystem, i int, d cuda.Device,
	mw []actor.ReceiverMiddleware) *adapterReplica {
	n.t.Helper()
	store := residency.NewStore(d, slowFiles{})
	store.UseImages(n.images)
	if _, err := store.Load(n.t.Context(), engine.LoadSpec{
		Lease: "x", Path: testkit.Model(), BlockTokens: 16, KVBlocks: 1, AdapterPages: 1,
		Limits: engine.Limits{StepTokens: 8, MaxSequences: 2, MaxAdapters: 2, MaxRank: 64},
	}); err != nil {
		n.t.Fatal(err)
	}
	cache, err := store.Adapters("x")
	if err != nil {
		n.t.Fatal(err)
	}
	r := &adapterReplica{
		device: d, store: cache, pins: make(map[string]*messages.AdapterSpec), pinned: make(map[string]bool),
	}
	props := adapter.Props(adapter.Config{
		Lease: "x", Model: "kjv", HostCache: n.cache, Open: func() (adapter.Store, error) { return cache, nil },
		Slot: func(cfg adapter.SlotConfig) *actor.Props {
			return adapter.SlotProps(cfg).Configure(actor.WithReceiverMiddleware(mw...))
		},
		Strategy: supervise.Strategy(nil), Log: zerolog.Nop(),
	}).Configure(actor.WithReceiverMiddleware(mw...))
	r.pid = testkit.Spawn(n.t, sys, fmt.Sprint("replica-", i), supervise.Strategy(nil), actor.PropsFromFunc(
		func(ctx actor.Context) { r.receive(ctx, props) }, actor.WithSupervisor(supervise.Strategy(nil))))
	return r
}

func (r *adapterReplica) receive(ctx actor.Context, pool *actor.Props) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		r.pool, _ = ctx.SpawnNamed(pool, "adapters")
	case *messages.AdaptersReady:
		adopt := &messages.AdoptPins{Incarnation: msg.GetIncarnation()}
		for id, spec := range r.pins {
			adopt.Pins = append(adopt.Pins, &messages.PinAdapter{RequestId: id, Adapter: spec})
		}
		ctx.Send(r.pool, adopt)
	case *messages.PinAdapterResult:
		if msg.GetRefused() != nil {
			r.failed = append(r.failed, msg.GetRefused().GetDetail())
		} else {
			r.pinned[msg.GetRequestId()] = true
		}
	case *messages.AdaptersChanged:
		r.counts = msg.GetCounts()
	case do:
		msg(ctx)
	}
}

// run makes a replica run f, and waits until all goroutines are blocked.
func (n *adapterNode) run(i int, f func(r *adapterReplica, ctx actor.Context)) {
	r := n.replicas[i]
	n.sys.Root.Send(r.pid, do(func(ctx actor.Context) { f(r, ctx) }))
	synctest.Wait()
}

// pin lets a replica pin an adapter, whose name is that of the request too.
func (n *adapterNode) pin(i int, spec *messages.AdapterSpec) {
	n.run(i, func(r *adapterReplica, ctx actor.Context) {
		r.pins[spec.Key()] = spec
		ctx.Send(r.pool, &messages.PinAdapter{RequestId: spec.Key(), Adapter: spec})
	})
}

func (n *adapterNode) unpin(i int, spec *messages.AdapterSpec) {
	n.run(i, func(r *adapterReplica, ctx actor.Context) {
		delete(r.pins, spec.Key())
		delete(r.pinned, spec.Key())
		ctx.Send(r.pool, &messages.UnpinAdapter{RequestId: spec.Key()})
	})
}

// wait waits until a replica has an adapter, and returns its bytes on the device.
func (n *adapterNode) wait(i int, spec *messages.AdapterSpec) string {
	n.t.Helper()
	for range 200 {
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		var pinned bool
		var failed []string
		n.run(i, func(r *adapterReplica, _ actor.Context) { pinned, failed = r.pinned[spec.Key()], r.failed })
		if len(failed) > 0 {
			n.t.Fatalf("replica %d: %v", i, failed)
		}
		if a, ok := n.replicas[i].store.Find(spec.Key()); ok && pinned {
			return contentOf(n.t, n.replicas[i].device, a)
		}
	}
	n.t.Fatalf("replica %d does not get %s", i, spec.Key())
	return ""
}

// contentOf returns the content of an adapter of one page on a device.
func contentOf(t *testing.T, d cuda.Device, a *engine.Adapter) string {
	t.Helper()
	memory, err := d.AllocHost(a.Layout.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = memory.Free() }()
	stream, err := d.NewStream("test")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	bytes := memory.Bytes()[:a.Layout.Bytes()]
	if err := stream.CopyOut(bytes, a.Pages[0]); err != nil {
		t.Fatal(err)
	}
	if err := stream.Sync(); err != nil {
		t.Fatal(err)
	}
	return string(bytes)
}

// status returns the state of the host cache, with an image for each adapter.
func (n *adapterNode) status() *messages.HostCacheStatus {
	time.Sleep(3 * time.Second)
	synctest.Wait()
	n.peer.Send(n.cache, &messages.GetHostCache{Adapters: true})
	synctest.Wait()
	all := testkit.Got[*messages.HostCacheStatus](n.peer)
	return all[len(all)-1]
}

// counts returns the loads of both replicas, from files and from host memory.
func (n *adapterNode) counts() (files, copies uint64) {
	time.Sleep(time.Second)
	for i := range n.replicas {
		n.run(i, func(r *adapterReplica, _ actor.Context) {
			files, copies = files+r.counts.GetReads(), copies+r.counts.GetHostLoads()
		})
	}
	return files, copies
}

// copyOf returns an adapter whose folder is a copy of a shipped one.
func copyOf(t *testing.T, shipped, name string, revision uint64) *messages.AdapterSpec {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(testkit.Model(), "adapters", shipped))); err != nil {
		t.Fatal(err)
	}
	return &messages.AdapterSpec{Name: name, Revision: revision, Model: "kjv", Path: dir}
}

// TestReplicasShareAdapters checks that the second replica of a node reads no file of an adapter, that
// there is one copy, also of an adapter of another name with the same content, and that the copy goes
// when both are deleted.
func TestReplicasShareAdapters(t *testing.T) { synctest.Test(t, replicasShareAdapters) }

func replicasShareAdapters(t *testing.T) {
	n := newAdapterNode(t, 16<<20, nil)
	psalms, twin := copyOf(t, "psalms", "psalms", 3), copyOf(t, "psalms", "twin", 4)
	n.pin(0, psalms)
	want := n.wait(0, psalms)
	if err := os.RemoveAll(psalms.GetPath()); err != nil {
		t.Fatal(err)
	}
	n.pin(1, psalms)
	if got := n.wait(1, psalms); got != want {
		t.Error("the second replica has another content")
	}
	if files, copies := n.counts(); files != 1 || copies != 1 {
		t.Errorf("%d loads from files, %d from host memory", files, copies)
	}
	n.unpin(0, psalms)
	n.pin(0, twin)
	n.wait(0, twin)
	s := n.status()
	bytes := uint64(len(want))
	if s.GetAdapterCopies() != 1 || s.GetAdapterBytes() != bytes || s.GetUsedBytes() != bytes ||
		s.GetInUseBytes() > 0 ||
		!slices.Equal(s.GetImages()[0].GetAdapters(), []string{"kjv:psalms@3", "kjv:twin@4"}) || n.memory.count() != 1 {
		t.Fatalf("%v; %d images have memory", s, n.memory.count())
	}
	for i, key := range []string{"psalms@3", "twin@4"} {
		n.deleted.Store(&key)
		if s := n.status(); s.GetAdapterCopies() != uint32(1-i) || n.memory.count() != 1-i {
			t.Errorf("%s is deleted: %v; %d images have memory", key, s, n.memory.count())
		}
	}
	if got := n.wait(1, psalms); got != want {
		t.Error("a deleted adapter has left the device of a replica that uses it")
	}
}

// TestReplicasLoadTogether checks that the files of an adapter are read once if both replicas need it at
// the same time.
func TestReplicasLoadTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newAdapterNode(t, 16<<20, nil)
		psalms := copyOf(t, "psalms", "psalms", 3)
		for _, r := range n.replicas {
			n.sys.Root.Send(r.pid, do(func(ctx actor.Context) {
				r.pins[psalms.Key()] = psalms
				ctx.Send(r.pool, &messages.PinAdapter{RequestId: psalms.Key(), Adapter: psalms})
			}))
		}
		if n.wait(0, psalms) != n.wait(1, psalms) {
			t.Error("the contents differ")
		}
		if files, copies := n.counts(); files != 1 || copies != 1 {
			t.Errorf("%d loads from files, %d from host memory", files, copies)
		}
	})
}

// TestFullCacheReadsFiles checks that adapters are served from their files if the host cache has no room,
// and that an event and a counter say so.
func TestFullCacheReadsFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newAdapterNode(t, 1000, nil)
		psalms := copyOf(t, "psalms", "psalms", 3)
		for i := range n.replicas {
			n.pin(i, psalms)
			n.wait(i, psalms)
		}
		if files, copies := n.counts(); files != 2 || copies != 0 {
			t.Errorf("%d loads from files, %d from host memory", files, copies)
		}
		s := n.status()
		if s.GetAdaptersRefused() != 2 || s.GetUsedBytes() != 0 || n.memory.count() != 0 || len(n.events.all) != 1 ||
			!n.events.have("adapter.uncached: read from its files: no room for an image") {
			t.Errorf("%v; %d images have memory; events %q", s, n.memory.count(), n.events.all)
		}
	})
}

// TestDamagedAdapterCopy checks that a damaged copy is dropped, that the files are read instead, and that the
// next load leaves a copy again.
func TestDamagedAdapterCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newAdapterNode(t, 16<<20, nil)
		psalms, shout := copyOf(t, "psalms", "psalms", 3), copyOf(t, "shout", "shout", 4)
		n.pin(0, psalms)
		want := n.wait(0, psalms)
		n.memory.damage()
		n.pin(1, psalms)
		if n.wait(1, psalms) != want {
			t.Error("a damaged copy was used")
		}
		if s := n.status(); s.GetAdapterCopies() != 0 || !n.events.have("adapter.damaged") {
			t.Errorf("%v; events %q", s, n.events.all)
		}
		for _, next := range []*messages.AdapterSpec{shout, psalms} { // in one page
			n.run(0, func(r *adapterReplica, ctx actor.Context) { clear(r.pins) })
			n.unpin(0, psalms)
			n.unpin(0, shout)
			n.pin(0, next)
			n.wait(0, next)
		}
		if s := n.status(); s.GetAdapterCopies() != 2 {
			t.Errorf("%v", s)
		}
	})
}

// TestDeletedWhileFilledLeavesNothing checks that a copy without names, whose adapter was deleted before a
// crash of the host cache, is dropped when it is filled.
func TestDeletedWhileFilledLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		crash := &testkit.Crash{On: "*messages.RemoveDeployment", Times: 1}
		n := newAdapterNode(t, 16<<20, crash)
		spec := copyOf(t, "psalms", "psalms", 3)
		cache := n.replicas[0].store
		file, err := cache.Inspect(core.Name{}, spec.GetPath())
		if err != nil {
			t.Fatal(err)
		}
		n.images.Reserve(core.Key{Digest: "load-1", Layout: cache.Layout()}, file.Layout.Bytes())
		n.images.Issue("1", core.Key{Digest: "load-1", Layout: cache.Layout()}, true, time.Now().Add(time.Hour))
		n.peer.Send(n.cache, &messages.RemoveDeployment{Name: "m"})
		synctest.Wait()
		if s := n.status(); crash.Crashed() != 1 || s.GetUsedBytes() != uint64(file.Layout.Bytes()) {
			t.Fatalf("%d crashes, %v", crash.Crashed(), s)
		}
		if _, err := cache.Load(t.Context(), "psalms@3", file, []uint32{0}, "1"); err != nil {
			t.Fatal(err)
		}
		if s := n.status(); s.GetUsedBytes() != 0 || n.memory.count() != 0 {
			t.Errorf("%v; %d images have memory", s, n.memory.count())
		}
	})
}

// TestAdapterCrashes crashes the host cache, the pools and the slots on each message of the protocol, at
// its first and second occurrence. Both replicas get the adapter, and nothing is left but its copy.
func TestAdapterCrashes(t *testing.T) {
	for _, on := range []string{
		"*messages.UseImage", "*messages.UseImageResult", "*hostcache.ended", "*adapter.copied", "*messages.SlotLoaded",
		"*adapter.inspected", "*messages.PinAdapter",
	} {
		for after := range int64(2) {
			t.Run(fmt.Sprintf("%s after %d", on, after), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					crash := &testkit.Crash{On: on, After: after, Times: 1}
					n := newAdapterNode(t, 16<<20, crash)
					psalms := copyOf(t, "psalms", "psalms", 3)
					for i := range n.replicas {
						n.pin(i, psalms)
					}
					if n.wait(0, psalms) != n.wait(1, psalms) {
						t.Error("the contents differ")
					}
					time.Sleep(15 * time.Second) // until a ticket that nothing claims has ended
					s := n.status()
					if s.GetAdapterCopies() > 1 || s.GetInUseBytes() > 0 || n.memory.count() != len(s.GetImages()) ||
						len(n.images.Ended()) > 0 ||
						s.GetAdapterCopies() == 1 && len(s.GetImages()[0].GetAdapters()) != 1 {
						t.Errorf("%v; %d images have memory", s, n.memory.count())
					}
					if crash.Crashed() == 0 {
						t.Error("nothing crashed")
					}
				})
			})
		}
	}
}
