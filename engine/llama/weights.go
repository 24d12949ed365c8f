package llama

import (
	"context"
	"fmt"

	"troupe/cuda"
	"troupe/engine"
	"troupe/engine/modelfile"
	"troupe/engine/safetensors"
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
	q, k, v, o, gate, up, down linear
}

// linear is a projection; bias is 0 where it has none.
type linear struct{ weight, bias cuda.Ptr }

// Inspect implements engine.Format.
func (f Format) Inspect(path string, device cuda.Info) (engine.Facts, error) {
	_, _, facts, err := inspect(f.Roots, path, device)
	return facts, err
}

// inspect reads config and headers.
func inspect(roots modelfile.Roots, path string, device cuda.Info) (Config, []placed, engine.Facts, error) {
	c, err := ReadConfig(roots, path)
	if err != nil {
		return c, nil, engine.Facts{}, err
	}
	found, err := folder(roots, path)
	if err != nil {
		return c, nil, engine.Facts{}, err
	}
	if c.Layers > len(found) { // before so many are laid out
		return c, nil, engine.Facts{}, fmt.Errorf("%s: num_hidden_layers is %d, and the files have %d tensors; they are of different models", path, c.Layers, len(found))
	}
	device.Weights = kept(device.Weights, found)
	tensors := layout(c, device.Weights)
	size, err := match(path, tensors, found)
	if err != nil {
		return c, nil, engine.Facts{}, err
	}
	facts := engine.Facts{
		Architecture: c.Architecture, Vocab: c.Vocab, ContextTokens: c.ContextTokens, EOS: c.EOS,
		WeightBytes: size, KVTokenBytes: c.KVTokenBytes(), KVLayout: c.kvLayout(device.Weights), KVLayers: c.Layers,
		RowBytes: c.rowBytes(), LogitsBytes: c.logitsBytes(), AdapterBytes: c.adapterBytes(), RankBytes: c.rankBytes(device.Weights),
		StreamBytes: device.StreamBytes,
	}
	for _, t := range tensors {
		facts.Parameters += t.source.Elements()
	}
	return c, tensors, facts, nil
}

// kept is the type that a model's matrices have on a device. Where that is best 16 bits, it is the type they are stored in:
// neither type of 16 bits has all the numbers of the other, or of F32.
func kept(best cuda.DType, found map[string]safetensors.Tensor) cuda.DType {
	if t, ok := found["model.embed_tokens.weight"]; ok && best != cuda.F32 {
		return t.DType
	}
	return best
}

// Load implements engine.Format.
func (f Format) Load(ctx context.Context, device cuda.Device, path string) (engine.Weights, error) {
	c, tensors, facts, err := inspect(f.Roots, path, device.Info())
	if err != nil {
		return nil, err
	}
	base, err := device.Alloc(facts.WeightBytes)
	if err != nil {
		return nil, fmt.Errorf("weights of %s: %w", path, err)
	}
	w := &Weights{Config: c, facts: facts, device: device, base: base, dtype: tensors[0].dtype, form: f.Adapters, layers: make([]layer, c.Layers)}
	if err := upload(ctx, device, base, tensors); err != nil {
		_ = device.Free(base) // the upload's error is the one to tell
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, t := range tensors {
		t.set(w, base.Offset(t.offset))
	}
	return w, nil
}

// Facts implements engine.Weights.
func (w *Weights) Facts() engine.Facts { return w.facts }

// Free implements engine.Weights.
func (w *Weights) Free() error { return w.device.Free(w.base) }
