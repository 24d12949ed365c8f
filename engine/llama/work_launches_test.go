package llama_test

import (
	"testing"

	"troupe/core/lora"
	"troupe/core/utilization"
	"troupe/cuda"
	"troupe/cuda/host"
	"troupe/cuda/kernels"
	"troupe/engine"
	"troupe/engine/llama"
	"troupe/testkit"
)

// workSpy is a device that counts the work of the products, the embeddings and the attention that it runs.
type workSpy struct {
	cuda.Device
	cuda.VirtualMemory
	work    utilization.Work
	queries []int // positions of the step's tokens
}

func (s *workSpy) NewStream(name string) (cuda.Stream, error) {
	stream, err := s.Device.NewStream(name)
	return workStream{stream, s}, err
}

type workStream struct {
	cuda.Stream
	spy *workSpy
}

func (s workStream) Launch(op cuda.Op) error {
	w := &s.spy.work
	switch o := op.(type) {
	case kernels.MatMul:
		w.FLOPs += 2 * float64(o.M) * float64(o.N) * float64(o.K)
		w.Bytes += float64(o.DType.Bytes()) * float64(o.N) * float64(o.K)
	case kernels.Embed:
		w.Bytes += float64(o.DType.Bytes()) * float64(o.N) * float64(o.Dim)
	case kernels.Attention:
		for _, position := range s.spy.queries {
			w.FLOPs += 4 * float64(o.Heads) * float64(o.KV.HeadDim) * float64(position+1)
		}
	case kernels.StoreKV:
		w.Bytes += 2 * 4 * float64(o.N) * float64(o.KV.KVHeads) * float64(o.KV.HeadDim)
	}
	return s.Stream.Launch(op)
}

// TestWork compares the work that an engine counts with the launches of its step. What a step reads of KV blocks is not
// part of a launch, and is added.
func TestWork(t *testing.T) {
	device, err := host.Open(host.Config{MemoryBytes: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	spy := &workSpy{Device: device, VirtualMemory: device.(cuda.VirtualMemory)}
	e := openWith(t, spy, llama.Loader{}, testkit.Model(), 64)
	info, err := llama.Loader{}.Inspect(testkit.Model(), device.Info())
	if err != nil {
		t.Fatal(err)
	}
	blocks := func(first int32) (all []int32) {
		for i := range int32(16) {
			all = append(all, first+i)
		}
		return all
	}
	for name, batch := range map[string][]engine.Sequence{
		"prefill":      {{Tokens: make([]uint32, 40), Blocks: blocks(0), Sample: true}},
		"a first part": {{Tokens: make([]uint32, 40), Blocks: blocks(0)}},
		"decode and prefill": {
			{Tokens: []uint32{1}, Position: 100, Blocks: blocks(0), Sample: true},
			{Tokens: []uint32{2}, Position: 7, Blocks: blocks(16), Sample: true},
			{Tokens: make([]uint32, 30), Position: 20, Blocks: blocks(32)},
		},
	} {
		spy.work, spy.queries = utilization.Work{}, nil
		read := 0
		for _, s := range batch {
			for i := range s.Tokens {
				spy.queries = append(spy.queries, s.Position+i)
			}
			read += s.Position + len(s.Tokens)
		}
		if _, err := e.Step(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		want := spy.work
		want.Bytes += float64(info.KVTokenBytes) * float64(read)
		if got := engine.WorkOf(e, batch); got != want {
			t.Errorf("%s: counted %+v, launched %+v", name, got, want)
		}
	}
}

// TestAdapterWork checks the work of adapters: each row multiplies each of their elements once, and each adapter is
// read once for adjacent sequences.
func TestAdapterWork(t *testing.T) {
	e := open(t, testkit.Model(), 64)
	layout := &lora.Layout{}
	const rank, in, out = 8, 64, 96
	layout.Add(lora.Matrix{Target: lora.Q, Part: lora.A}, 4*rank*in)
	layout.Add(lora.Matrix{Target: lora.Q, Part: lora.B}, 4*rank*out)
	adapter := &engine.Adapter{Layout: layout, Rank: rank}
	batch := func(adapters ...*engine.Adapter) (all []engine.Sequence) {
		for _, a := range adapters {
			all = append(all, engine.Sequence{Tokens: make([]uint32, 5), Adapter: a})
		}
		return all
	}
	base, with := engine.WorkOf(e, batch(nil, nil, nil)), engine.WorkOf(e, batch(nil, adapter, adapter))
	if got, want := with.FLOPs-base.FLOPs, float64(2*10*rank*(in+out)); got != want {
		t.Errorf("%v FLOPs for an adapter, want %v", got, want)
	}
	if got, want := with.Bytes-base.Bytes, float64(4*rank*(in+out)); got != want {
		t.Errorf("%v bytes for an adapter, want %v", got, want)
	}
}

// BenchmarkWork measures what counting the work of a step costs.
func BenchmarkWork(b *testing.B) {
	e := open(b, testkit.Model(), 64)
	batch := make([]engine.Sequence, 16)
	for i := range batch {
		batch[i] = engine.Sequence{Tokens: []uint32{5}, Position: 50 + i, Sample: true}
	}
	b.ReportAllocs()
	for b.Loop() {
		engine.WorkOf(e, batch)
	}
}
