package llama_test

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"troupe/core/sample"
	"troupe/cuda"
	"troupe/cuda/host"
	"troupe/engine"
)

// lateGate fills the blocks of a sequence layer by layer, each when a step passes it and not
// before.
type lateGate struct {
	r          *testReplica
	blocks     []int32
	content    [][]byte // per block, page-locked
	passed     []int    // layers that were passed
	failAt     int      // the layer that fails; -1: none
	beforePass func(layer int)
	inFlight   sync.WaitGroup
}

var errGateFailed = errors.New("the blocks do not arrive")

func (g *lateGate) Pass(_ context.Context, layer int) (cuda.Event, int, error) {
	g.passed = append(g.passed, layer)
	if layer == g.failAt {
		return nil, 0, errGateFailed
	}
	g.beforePass(layer)
	size := g.r.blocks.BlockBytes() / g.r.blocks.Layers()
	var queued sync.WaitGroup
	for i, b := range g.blocks {
		queued.Add(1)
		g.inFlight.Go(func() {
			part := g.content[i][layer*size : (layer+1)*size]
			err := g.r.blocks.WritePart(context.Background(), b, layer*size, part, queued.Done)
			if err != nil {
				panic(err)
			}
		})
	}
	queued.Wait()
	ready, err := g.r.blocks.Mark()
	return ready, layer + 1, err
}

// newLateGate computes the first blocks of a prompt, saves their content, and returns a gate that
// restores them.
func newLateGate(t *testing.T, r *testReplica, g *generation, many int) *lateGate {
	t.Helper()
	size := r.blocks.BlockBytes()
	memory, err := r.device.AllocHost(int64(many * size))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = memory.Free() })
	first := g.next(many * blockTokens)
	if _, err := r.engine.Step(t.Context(), []engine.Sequence{first}); err != nil {
		t.Fatal(err)
	}
	l := &lateGate{r: r, blocks: g.blocks[:many], failAt: -1, beforePass: func(int) {}}
	for i, b := range l.blocks {
		l.content = append(l.content, memory.Bytes()[i*size:(i+1)*size])
		if err := r.blocks.Read(t.Context(), b, l.content[i]); err != nil {
			t.Fatal(err)
		}
	}
	g.computed = len(first.Tokens)
	return l
}

// overwrite overwrites blocks with values that make every result wrong that uses them.
func overwrite(t *testing.T, r *testReplica, blocks []int32) {
	t.Helper()
	content := bytes.Repeat([]byte{0x7f, 0xc0}, r.blocks.BlockBytes()/2)
	for _, b := range blocks {
		if err := r.blocks.Write(t.Context(), b, content); err != nil {
			t.Fatal(err)
		}
	}
}

func longPrompt(want int, blocks ...int32) *generation {
	g := &generation{
		want: want, blocks: blocks, params: sample.Params{Temperature: 0.9, Seed: 7, Logprobs: true, TopLogprobs: 5},
	}
	for i := range 3*blockTokens + 11 {
		g.prompt = append(g.prompt, uint32(3+i*31%1000))
	}
	return g
}

// exposedDevice is a device that exposes the stream of the steps.
type exposedDevice struct {
	cuda.Device
	cuda.HostLocks
	step cuda.Stream
}

func (d *exposedDevice) NewStream(name string) (cuda.Stream, error) {
	s, err := d.Device.NewStream(name)
	if name == "step" {
		d.step = s
	}
	return s, err
}

// newExposedDevice opens a tapped device.
func newExposedDevice(t *testing.T, inject func(op string) error) *exposedDevice {
	t.Helper()
	device, err := host.Open(host.Config{MemoryBytes: 1 << 30, Inject: inject})
	if err != nil {
		t.Fatal(err)
	}
	return &exposedDevice{Device: device, HostLocks: device.(cuda.HostLocks)}
}

// TestLateLayersGiveSameResult checks that a step's result is bit-identical no matter how late the
// layers of the blocks arrive. Work that was launched before a layer was passed must not read the
// layer: it ends before the layer is written.
func TestLateLayersGiveSameResult(t *testing.T) {
	device := newExposedDevice(t, nil)
	gatedStep(t, newReplicaOn(t, device), func(int) {
		if err := device.step.Sync(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestGateDoesNotBlockHost shows that the host launches the whole step before any copy is done:
// the device waits for the copies, not the host.
func TestGateDoesNotBlockHost(t *testing.T) {
	var hold atomic.Bool
	released := make(chan struct{})
	device := newExposedDevice(t, func(op string) error {
		if op == "copy in" && hold.Load() {
			<-released
		}
		return nil
	})
	r := newReplicaOn(t, device)
	gatedStep(t, r, func(layer int) {
		switch layer {
		case 0:
			if err := device.step.Sync(); err != nil { // the step's own copies are done
				t.Fatal(err)
			}
			hold.Store(true)
		case r.blocks.Layers() - 1:
			hold.Store(false)
			close(released)
		}
	})
}

// gatedStep runs a step of two sequences, one of which waits for its blocks, and compares both
// results with those of steps without a gate.
func gatedStep(t *testing.T, r *testReplica, begun func(layer int)) {
	t.Helper()
	whole, other := longPrompt(4, 0, 1, 2, 3), longPrompt(4, 4, 5, 6, 7)
	other.prompt[0]++
	runAlone(t, r.engine, whole)
	runAlone(t, r.engine, other)
	g, beside := longPrompt(4, 8, 9, 10, 11), longPrompt(4, 4, 5, 6, 7)
	beside.prompt[0]++
	gate := newLateGate(t, r, g, 3)
	overwrite(t, r, gate.blocks)
	s, with := g.next(limits.StepTokens), beside.next(limits.StepTokens)
	s.Gate, gate.beforePass = gate, begun
	tokens, err := r.engine.Step(t.Context(), []engine.Sequence{with, s})
	if err != nil {
		t.Fatal(err)
	}
	gate.inFlight.Wait()
	if want := []int{0, 1, 2, 3, 4, 5}; !slices.Equal(gate.passed, want) {
		t.Errorf("passed layers %v, want %v", gate.passed, want)
	}
	g.advance(s, beside.advance(with, tokens))
	runAlone(t, r.engine, g)
	runAlone(t, r.engine, beside)
	for what, pair := range map[string][2]*generation{"gated": {g, whole}, "not gated": {beside, other}} {
		if !reflect.DeepEqual(pair[0].tokens, pair[1].tokens) {
			t.Errorf("%s: got %v,\nwant %v", what, pair[0].tokens, pair[1].tokens)
		}
	}
}

// TestAbortedStepLeavesNoTrace checks that a step whose gate fails at any layer returns no tokens
// and writes only to the slots it was given. Repeated without the sequence that failed, the step
// gives the other sequences their usual results.
func TestAbortedStepLeavesNoTrace(t *testing.T) {
	r := newReplica(t)
	want := longPrompt(4, 0, 1, 2, 3)
	runAlone(t, r.engine, want)
	blockOf := func(b int32) []byte {
		buf := make([]byte, r.blocks.BlockBytes())
		if err := r.blocks.Read(t.Context(), b, buf); err != nil {
			t.Fatal(err)
		}
		return buf
	}
	for layer := range r.blocks.Layers() {
		g, beside := longPrompt(4, 8, 9, 10, 11), longPrompt(4, 4, 5, 6, 7)
		gate := newLateGate(t, r, g, 3)
		gate.failAt = layer
		for !beside.done() && len(beside.output) < 2 {
			r.step(t, beside)
		}
		before := make([][]byte, kvBlocks)
		for b := range before {
			before[b] = blockOf(int32(b))
		}
		gated, decoding := g.next(limits.StepTokens), beside.next(1)
		gated.Gate = gate
		tokens, err := r.engine.Step(t.Context(), []engine.Sequence{decoding, gated})
		var aborted *engine.StepAborted
		if !errors.As(err, &aborted) || aborted.Sequence != 1 || !errors.Is(err, errGateFailed) || tokens != nil {
			t.Fatalf("layer %d: %v, %v", layer, tokens, err)
		}
		gate.inFlight.Wait()
		for b := range before {
			if wrote := int32(b) == g.blocks[3] || int32(b) == beside.blocks[3]; !wrote &&
				!bytes.Equal(blockOf(int32(b)), before[b]) {
				t.Errorf("layer %d: block %d has changed", layer, b)
			}
		}
		runAlone(t, r.engine, beside)
		g.computed = 0
		runAlone(t, r.engine, g)
		if !reflect.DeepEqual(beside.tokens, want.tokens) || !reflect.DeepEqual(g.tokens, want.tokens) {
			t.Errorf("layer %d: got %v and %v,\nwant %v", layer, beside.tokens, g.tokens, want.tokens)
		}
	}
}

// TestWritePartRefuses checks that ranges outside a block are refused.
func TestWritePartRefuses(t *testing.T) {
	r := newReplica(t)
	b := make([]byte, r.blocks.BlockBytes())
	for at, part := range map[int][]byte{-1: b[:1], 1: b, 2: nil, len(b): b[:1]} {
		queued := func() { t.Errorf("a copy to byte %d was queued", at) }
		if err := r.blocks.WritePart(t.Context(), 0, at, part, queued); err == nil {
			t.Errorf("%d bytes at offset %d were copied", len(part), at)
		}
	}
}
