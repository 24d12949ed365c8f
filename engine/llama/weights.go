package llama

import (
	"context"
	"fmt"

	"troupe/cuda"
	"troupe/engine"
	"troupe/engine/modelfile"
)

// Format loads models of the Llama family. It implements engine.Format.
type Format struct {
	Roots    modelfile.Roots // where models and adapters may be
	Adapters Form            // how steps compute them; Batched but in tests and benchmarks
}

// Weights are a model in device memory, in one allocation.
type Weights struct {
	Config
	facts  engine.Facts
	device cuda.Device
	base   cuda.Ptr
	dtype  cuda.DType // of the matrices
	form   Form

	embed, norm, head cuda.Ptr
	layers            []layer
}

type layer struct {
	attentionNorm, mlpNorm     cuda.Ptr
	qNorm, kNorm               cuda.Ptr // of each head; 0 where the model has none
	q, k, v, o, gate, up, down linear
}

// linear is a projection; bias is 0 where it has none.
type linear struct{ weight, bias cuda.Ptr }

// Load implements engine.Format.
func (f Format) Load(ctx context.Context, device cuda.Device, path string) (engine.Weights, error) {
	m, err := inspect(f.Roots, path, device.Info())
	if err != nil {
		return nil, err
	}
	if err := sameHead(ctx, m.tensors[0], m.copied); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	base, err := device.Alloc(m.facts.WeightBytes)
	if err != nil {
		return nil, fmt.Errorf("weights of %s: %w", path, err)
	}
	w := &Weights{
		Config: m.Config, facts: m.facts, device: device, base: base, dtype: m.tensors[0].dtype, form: f.Adapters,
		layers: make([]layer, m.Layers),
	}
	if err := upload(ctx, device, base, m.tensors); err != nil {
		_ = device.Free(base) // the upload's error is the one to tell
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, t := range m.tensors {
		t.set(w, base.Offset(t.offset))
	}
	return w, nil
}

// Facts implements engine.Weights.
func (w *Weights) Facts() engine.Facts { return w.facts }

// Free implements engine.Weights.
func (w *Weights) Free() error { return w.device.Free(w.base) }
