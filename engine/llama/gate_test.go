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

// late fills the blocks of a sequence layer by layer, each when a step asks for it and not before.
type late struct {
	r       *replica
	blocks  []int32
	content [][]byte // of each block, page-locked
	asked   []int    // layers
	fails   int      // at this layer; -1: none
	begun   func(layer int)
	flying  sync.WaitGroup
}

var errLate = errors.New("it does not come")

func (g *late) Pass(_ context.Context, layer int) (cuda.Event, int, error) {
	g.asked = append(g.asked, layer)
	if layer == g.fails {
		return nil, 0, errLate
	}
	g.begun(layer)
	size := g.r.blocks.BlockBytes() / g.r.blocks.Layers()
	var queued sync.WaitGroup
	for i, b := range g.blocks {
		queued.Add(1)
		g.flying.Go(func() {
			if err := g.r.blocks.WritePart(context.Background(), b, layer*size, g.content[i][layer*size:(layer+1)*size], queued.Done); err != nil {
				panic(err)
			}
		})
	}
	queued.Wait()
	ready, err := g.r.blocks.Mark()
	return ready, layer + 1, err
}

// gatedBy computes a prompt's first blocks, takes them away, and returns the gate that brings them back.
func gatedBy(t *testing.T, r *replica, g *generation, many int) *late {
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
	l := &late{r: r, blocks: g.blocks[:many], fails: -1, begun: func(int) {}}
	for i, b := range l.blocks {
		l.content = append(l.content, memory.Bytes()[i*size:(i+1)*size])
		if err := r.blocks.Read(t.Context(), b, l.content[i]); err != nil {
			t.Fatal(err)
		}
	}
	g.computed = len(first.Tokens)
	return l
}

// spoil overwrites blocks with what makes every sum that it enters wrong.
func spoil(t *testing.T, r *replica, blocks []int32) {
	t.Helper()
	for _, b := range blocks {
		if err := r.blocks.Write(t.Context(), b, bytes.Repeat([]byte{0x7f, 0xc0}, r.blocks.BlockBytes()/2)); err != nil {
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

// tapped is a device whose test sees the stream that steps run on.
type tapped struct {
	cuda.Device
	cuda.HostLocks
	step cuda.Stream
}

func (d *tapped) NewStream(name string) (cuda.Stream, error) {
	s, err := d.Device.NewStream(name)
	if name == "step" {
		d.step = s
	}
	return s, err
}

// tap opens one.
func tap(t *testing.T, inject func(op string) error) *tapped {
	t.Helper()
	device, err := host.Open(host.Config{MemoryBytes: 1 << 30, Inject: inject})
	if err != nil {
		t.Fatal(err)
	}
	return &tapped{Device: device, HostLocks: device.(cuda.HostLocks)}
}

// TestGateOpensLate: what a step computes is the same bit by bit, however late a layer of the blocks comes. Nothing that was launched before the step asked for
// a layer reads it: all of that has ended before the layer is written.
func TestGateOpensLate(t *testing.T) {
	device := tap(t, nil)
	gatedStep(t, newReplicaOn(t, device), func(int) {
		if err := device.step.Sync(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestGateDoesNotHoldTheHost: a step is launched to its end while no copy was done: the device waits for them, not the host.
func TestGateDoesNotHoldTheHost(t *testing.T) {
	var hold atomic.Bool
	released := make(chan struct{})
	device := tap(t, func(op string) error {
		if op == "copy in" && hold.Load() {
			<-released
		}
		return nil
	})
	r := newReplicaOn(t, device)
	gatedStep(t, r, func(layer int) {
		switch layer {
		case 0:
			if err := device.step.Sync(); err != nil { // its own copies are done
				t.Fatal(err)
			}
			hold.Store(true)
		case r.blocks.Layers() - 1:
			hold.Store(false)
			close(released)
		}
	})
}

// gatedStep runs a step of two sequences, one of which has to wait for its blocks, and compares what becomes of both with what should.
func gatedStep(t *testing.T, r *replica, begun func(layer int)) {
	t.Helper()
	whole, other := longPrompt(4, 0, 1, 2, 3), longPrompt(4, 4, 5, 6, 7)
	other.prompt[0]++
	alone(t, r.engine, whole)
	alone(t, r.engine, other)
	g, beside := longPrompt(4, 8, 9, 10, 11), longPrompt(4, 4, 5, 6, 7)
	beside.prompt[0]++
	gate := gatedBy(t, r, g, 3)
	spoil(t, r, gate.blocks)
	s, with := g.next(limits.StepTokens), beside.next(limits.StepTokens)
	s.Gate, gate.begun = gate, begun
	tokens, err := r.engine.Step(t.Context(), []engine.Sequence{with, s})
	if err != nil {
		t.Fatal(err)
	}
	gate.flying.Wait()
	if want := []int{0, 1, 2, 3, 4, 5}; !slices.Equal(gate.asked, want) {
		t.Errorf("layers %v were asked for, not %v", gate.asked, want)
	}
	g.advance(s, beside.advance(with, tokens))
	alone(t, r.engine, g)
	alone(t, r.engine, beside)
	for what, pair := range map[string][2]*generation{"the one that was gated": {g, whole}, "the one beside it": {beside, other}} {
		if !reflect.DeepEqual(pair[0].tokens, pair[1].tokens) {
			t.Errorf("%s: %v,\nnot %v", what, pair[0].tokens, pair[1].tokens)
		}
	}
}

// TestVoidStep: a step whose gate fails at any layer chooses nothing, and leaves no trace but in the slots that it was given; run again without that sequence, the
// others get what they would have got.
func TestVoidStep(t *testing.T) {
	r := newReplica(t)
	want := longPrompt(4, 0, 1, 2, 3)
	alone(t, r.engine, want)
	blockOf := func(b int32) []byte {
		buf := make([]byte, r.blocks.BlockBytes())
		if err := r.blocks.Read(t.Context(), b, buf); err != nil {
			t.Fatal(err)
		}
		return buf
	}
	for layer := range r.blocks.Layers() {
		g, beside := longPrompt(4, 8, 9, 10, 11), longPrompt(4, 4, 5, 6, 7)
		gate := gatedBy(t, r, g, 3)
		gate.fails = layer
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
		var void *engine.StepAborted
		if !errors.As(err, &void) || void.Sequence != 1 || !errors.Is(err, errLate) || tokens != nil {
			t.Fatalf("layer %d: %v, %v", layer, tokens, err)
		}
		gate.flying.Wait()
		for b := range before {
			if wrote := int32(b) == g.blocks[3] || int32(b) == beside.blocks[3]; !wrote &&
				!bytes.Equal(blockOf(int32(b)), before[b]) {
				t.Errorf("layer %d: block %d has changed", layer, b)
			}
		}
		alone(t, r.engine, beside)
		g.computed = 0
		alone(t, r.engine, g)
		if !reflect.DeepEqual(beside.tokens, want.tokens) || !reflect.DeepEqual(g.tokens, want.tokens) {
			t.Errorf("layer %d: %v and %v,\nnot %v", layer, beside.tokens, g.tokens, want.tokens)
		}
	}
}

// TestWritePartRefuses what is not within a block.
func TestWritePartRefuses(t *testing.T) {
	r := newReplica(t)
	b := make([]byte, r.blocks.BlockBytes())
	for at, part := range map[int][]byte{-1: b[:1], 1: b, 2: nil, len(b): b[:1]} {
		if err := r.blocks.WritePart(t.Context(), 0, at, part, func() { t.Errorf("a copy to byte %d is on its way", at) }); err == nil {
			t.Errorf("%d bytes at %d were copied", len(part), at)
		}
	}
}
