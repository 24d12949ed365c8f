package hostcache_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/hostcache"
	"troupe/core/loadsource"
	"troupe/cuda"
	"troupe/messages"
	"troupe/testkit"
	"troupe/testkit/models"
)

// wires connect the nodes of a test.
type wires struct {
	system *actor.ActorSystem
	nodes  int
	mu     sync.Mutex
	puts   map[string]func(uint32, []byte) error
	sizes  map[string]int
}

// wire is the data plane of a node.
type wire struct {
	*wires
	left  atomic.Int64 // chunks until the connection is lost
	sent  atomic.Int64
	spoil atomic.Bool // one byte of each chunk

	holdAt int64         // chunks that are left when the next one waits for the gate; 0: none waits
	held   chan struct{} // closed when it waits
	gate   chan struct{}
}

// hold lets chunks wait for the gate after so many.
func (w *wire) hold(after int64) {
	w.left.Store(1 << 40)
	w.holdAt, w.held, w.gate = 1<<40-after, make(chan struct{}), make(chan struct{})
}

func newWires(t *testing.T) *wires {
	return &wires{
		system: testkit.System(t), puts: make(map[string]func(uint32, []byte) error), sizes: make(map[string]int),
	}
}

func (w *wires) node() *wire {
	n := &wire{wires: w}
	n.left.Store(1 << 40)
	return n
}

func (w *wires) Expect(size int, _ uint32, put func(uint32, []byte) error) (*messages.BulkTicket, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	id := fmt.Sprint(len(w.puts))
	w.puts[id], w.sizes[id] = put, size
	return &messages.BulkTicket{Transfer: id}, nil
}

func (w *wires) Drop(t *messages.BulkTicket) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.sizes, t.GetTransfer())
}

// open returns the number of transfers that are expected.
func (w *wires) open() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.sizes)
}

func (w *wire) Send(ctx context.Context, to *messages.BulkTicket, indices []uint32,
	read func(uint32, []byte) (int, error)) error {
	for _, i := range indices {
		w.mu.Lock()
		put, size := w.puts[to.GetTransfer()], w.sizes[to.GetTransfer()]
		w.mu.Unlock()
		if size == 0 {
			return errors.New("transfer refused")
		}
		b := make([]byte, size)
		n, err := read(i, b)
		if err != nil {
			return err
		}
		switch left := w.left.Add(-1); {
		case left < 0:
			return errors.New("connection lost")
		case w.holdAt > 0 && left == w.holdAt:
			close(w.held)
			<-w.gate
		}
		if w.spoil.Load() {
			b[n/2]++
		}
		if err := put(i, b[:n]); err != nil {
			return err
		}
		w.sent.Add(1)
	}
	return ctx.Err()
}

func (w *wire) SendInPlace(ctx context.Context, to *messages.BulkTicket, indices []uint32,
	view func(uint32, func(...[]byte) error) error) error {
	return w.Send(ctx, to, indices, func(i uint32, into []byte) (n int, err error) {
		err = view(i, func(parts ...[]byte) error {
			for _, p := range parts {
				n += copy(into[n:], p)
			}
			return nil
		})
		return n, err
	})
}

// nodeFixture is a node of a test with a data plane.
type nodeFixture struct {
	*fixture
	wire *wire
}

func (w *wires) start(t *testing.T, memory int64, images string) nodeFixture {
	t.Helper()
	n := nodeFixture{wire: w.node()}
	w.nodes++
	n.fixture = newNode(t, w.system, fmt.Sprint(w.nodes), memory, images, 64<<20, nil, nil, n.wire)
	return n
}

// join lets a node load the images of others, which are called a, b and so on.
func (n nodeFixture) join(others ...nodeFixture) *hostcache.OtherNodes {
	o := &hostcache.OtherNodes{
		System: n.system, Plane: n.wire, Log: zerolog.Nop(),
		Peers: func() (all []hostcache.Peer) {
			for i, o := range others {
				all = append(all, hostcache.Peer{Node: string(rune('a' + i)), PID: o.cache})
			}
			return all
		},
	}
	n.store.UseOtherNodes(o)
	return o
}

// largeModel is a model of ten parts.
func largeModel(t *testing.T, seed uint64) string {
	dir := filepath.Join(t.TempDir(), "model")
	if err := models.Random(testkit.Model(), dir, 40<<20, cuda.F32, seed); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestLoadFromOtherNode loads a model whose folder is gone from the host cache of another node, and from
// its disk, with config and tokenizer.
func TestLoadFromOtherNode(t *testing.T) { synctest.Test(t, loadFromOtherNode) }

func loadFromOtherNode(t *testing.T) {
	w, images, dir := newWires(t), t.TempDir(), largeModel(t, 1)
	a := w.start(t, 64<<20, images)
	want := a.output(a.load(dir))
	a.onDisk(1)
	a.park()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	diskOnly := w.start(t, 1<<10, images)
	for kept, from := range map[string]nodeFixture{"node a, host cache": a, "node a, disk image": diskOnly} {
		n := w.start(t, 64<<20, "")
		n.join(from)
		n.revision = a.revision
		loaded := n.load(dir)
		if got := n.output(loaded); got != want || loaded.GetMetrics().GetSource() != kept {
			t.Errorf("%s from %q, want %q", got, loaded.GetMetrics().GetSource(), kept)
		}
		n.park()
		if source := n.load(dir).GetMetrics().GetSource(); source != hostCache {
			t.Errorf("again from %s", source)
		}
		n.park()
	}
	if open := w.open(); open != 0 {
		t.Errorf("%d transfers are still expected", open)
	}
}

// TestLoadFromDeviceOfOtherNode loads a model that is nowhere but on devices of other nodes, which have no
// host memory for images. It reads them in use, evicts them meanwhile, and loses one in the middle.
func TestLoadFromDeviceOfOtherNode(t *testing.T) { synctest.Test(t, loadFromDeviceOfOtherNode) }

func loadFromDeviceOfOtherNode(t *testing.T) {
	w, dir := newWires(t), largeModel(t, 1)
	a, b := w.start(t, 1<<10, ""), w.start(t, 1<<10, "")
	want := a.output(a.load(dir))
	b.load(dir)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	gpu := func(n nodeFixture) *messages.GpuStatus {
		before := len(testkit.Got[*messages.GpuStatus](n.peer))
		n.peer.Send(n.gpu, &messages.GetGpu{})
		testkit.Until(t, "a status", func() bool { return len(testkit.Got[*messages.GpuStatus](n.peer)) > before })
		return testkit.Got[*messages.GpuStatus](n.peer)[before]
	}
	for left, c := range map[int64]struct{ source, why string }{
		1 << 40: {"node a, device gpu-0", "is assumed to deliver"},
		5:       {"node b, device gpu-0", "node a, device gpu-0: "},
	} {
		n := w.start(t, 64<<20, "")
		others := n.join(a, b)
		for _, s := range others.Open(t.Context(), a.revision, n.device.Info()) {
			if s.Kind() != loadsource.NodeDevice || s.Close() != nil {
				t.Errorf("%s is a %s", s.Name(), s.Kind())
			}
		}
		n.revision = a.revision
		a.wire.left.Store(left)
		loaded := n.load(dir)
		if m := loaded.GetMetrics(); n.output(loaded) != want || m.GetSource() != c.source ||
			!strings.Contains(m.GetWhy(), c.why) {
			t.Errorf("%v", m)
		}
		a.wire.left.Store(1 << 40)
		for _, from := range []nodeFixture{a, b} {
			testkit.Until(t, "no readers", func() bool { return gpu(from).GetWeights()[0].GetReaders() == 0 })
		}
		n.park() // an image was left in host memory
		if source := n.load(dir).GetMetrics().GetSource(); source != hostCache {
			t.Errorf("again from %s", source)
		}
	}
	n := w.start(t, 1<<10, "")
	n.join(a)
	n.revision = a.revision
	a.wire.hold(5)
	id := n.request(dir)
	<-a.wire.held
	a.peer.Send(a.gpu, &messages.UnloadModel{Lease: "m-0", Fate: messages.WeightsFate_WEIGHTS_FATE_DROP})
	testkit.Until(t, "no users", func() bool { return len(gpu(a).GetWeights()[0].GetUsers()) == 0 })
	if w := gpu(a).GetWeights()[0]; w.GetReaders() != 1 {
		t.Errorf("%v", w)
	}
	close(a.wire.gate)
	testkit.Until(t, "the load", func() bool { return n.answer(id) != nil })
	if m := n.answer(id).GetLoaded().GetMetrics(); m.GetSource() != "node a, device gpu-0" {
		t.Errorf("%v, %v", m, n.answer(id).GetRefused())
	}
	testkit.Until(t, "an empty device", func() bool { return len(gpu(a).GetWeights()) == 0 })
}

// TestLostNodeIsReplaced loses the connection to a node in the middle of a load, or damages what it sends.
// The next node goes on, and sends only what is missing.
func TestLostNodeIsReplaced(t *testing.T) { synctest.Test(t, lostNodeIsReplaced) }

func lostNodeIsReplaced(t *testing.T) {
	w, dir := newWires(t), largeModel(t, 1)
	a, b := w.start(t, 64<<20, ""), w.start(t, 64<<20, "")
	want := a.output(a.load(dir))
	parts := int64(len(a.images.Find(a.revision, a.device.Info()).Sums))
	a.park()
	b.load(dir)
	b.park()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	const inFlight = 4 // parts that a load reads at once
	if parts < 2*inFlight {
		t.Fatalf("only %d parts", parts)
	}
	for _, left := range []int64{0, parts / 2, parts - 1, -1} {
		n := w.start(t, 1<<10, "")
		if n.join(a, b).Header(a.revision, n.device.Info()) == nil {
			t.Fatal("no description")
		}
		n.revision = a.revision
		a.wire.left.Store(left)
		if left < 0 {
			a.wire.left.Store(1 << 40)
			a.wire.spoil.Store(true)
		}
		b.wire.sent.Store(0)
		loaded := n.load(dir)
		m := loaded.GetMetrics()
		if got := n.output(loaded); got != want || m.GetSource() != "node b, host cache" ||
			!strings.HasPrefix(m.GetWhy(), "node a, host cache: ") {
			t.Errorf("after %d: %s from %q, since %q", left, got, m.GetSource(), m.GetWhy())
		}
		if sent := b.wire.sent.Load(); sent > parts-max(left, 0)+inFlight || sent < parts-max(left, 0) {
			t.Errorf("after %d of %d parts, the next node sent %d", left, parts, sent)
		}
		a.wire.left.Store(1 << 40)
		a.wire.spoil.Store(false)
		n.park()
	}
}

// TestDescriptionMustMatchRevision refuses the files of another revision.
func TestDescriptionMustMatchRevision(t *testing.T) { synctest.Test(t, descriptionMustMatchRevision) }

func descriptionMustMatchRevision(t *testing.T) {
	w := newWires(t)
	a, n := w.start(t, 64<<20, ""), w.start(t, 64<<20, "")
	a.load(tinyModel(t, 1))
	o := n.join(a)
	image := a.images.Find(a.revision, a.device.Info())
	for name, f := range image.Files {
		if f.Content[0]++; o.Header(a.revision, n.device.Info()) != nil {
			t.Errorf("%s was changed, and accepted", name)
		}
		f.Content[0]--
	}
	if o.Header(a.revision, n.device.Info()) == nil {
		t.Error("the right files were refused")
	}
}
