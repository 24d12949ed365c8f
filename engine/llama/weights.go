package llama

import (
	"context"
	"fmt"

	"troupe/cuda"
	"troupe/engine"
	"troupe/modelfile"
	"troupe/modelfile/digest"
	"troupe/modelfile/safetensors"
)

// Loader loads models of the Llama family. It implements engine.Loader.
type Loader struct {
	Roots    modelfile.Roots // folders that may contain models and adapters
	Adapters LoRAMode        // Batched except in tests and benchmarks
	Digests  *digest.Cache   // of files read before; nil: every load hashes all files
}

// Weights is a model in device memory, in one allocation.
type Weights struct {
	Config
	info   engine.ModelInfo
	digest engine.Digests
	device cuda.Device
	base   cuda.Ptr
	dtype  cuda.DType // of the matrices
	mode   LoRAMode

	embed, norm, head cuda.Ptr
	layers            []layer
}

type layer struct {
	attentionNorm, mlpNorm     cuda.Ptr
	qNorm, kNorm               cuda.Ptr // per head; 0 if the model has none
	q, k, v, o, gate, up, down linear
}

// linear is a projection; bias is 0 if it has none.
type linear struct{ weight, bias cuda.Ptr }

// Load implements engine.Loader.
func (f Loader) Load(ctx context.Context, device cuda.Device, path string) (engine.Weights, error) {
	settings, unread := digest.Settings(f.Roots, path, f.Digests)
	m, err := inspect(f.Roots, path, device.Info())
	if err == nil {
		err = unread
	}
	if err != nil {
		return nil, err
	}
	if err := checkTiedHead(ctx, m.tensors[0], m.tiedHead); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	base, err := device.Alloc(m.info.WeightBytes)
	if err != nil {
		return nil, fmt.Errorf("weights of %s: %w", path, err)
	}
	w := &Weights{
		Config: m.Config, info: m.info, device: device, base: base, dtype: m.tensors[0].dtype, mode: f.Adapters,
		layers: make([]layer, m.Layers),
	}
	if w.digest, err = f.read(ctx, w, m, path, settings); err != nil {
		_ = device.Free(base) // err is the error to return
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, t := range m.tensors {
		t.set(w, base.Offset(t.offset))
	}
	return w, nil
}

// read loads the tensors into device memory. It returns the digests of the files that the tensors
// and settings came from.
func (f Loader) read(
	ctx context.Context, w *Weights, m inspectedModel, path string, before digest.Sum,
) (engine.Digests, error) {
	source := &weightReader{ctx: ctx, roots: f.Roots, cache: f.Digests, hasher: digest.NewHasher(0)}
	defer source.closeFile()
	if err := upload(ctx, w.device, w.base, m.tensors, source); err != nil {
		return engine.Digests{}, err
	}
	if err := source.finish(); err != nil {
		return engine.Digests{}, err
	}
	files, err := safetensors.Files(f.Roots, path)
	if err == nil {
		err = source.readRest(files)
	}
	if err != nil {
		return engine.Digests{}, err
	}
	settings, err := digest.Settings(f.Roots, path, f.Digests)
	if err == nil && settings != before {
		err = digest.Changed("config.json, or the tokenizer")
	}
	weights := digest.Weights(source.files)
	return engine.Digests{Weights: weights.String(), Revision: digest.Revision(weights, settings).String()}, err
}

// Digests implements engine.Weights.
func (w *Weights) Digests() engine.Digests { return w.digest }

// Info implements engine.Weights.
func (w *Weights) Info() engine.ModelInfo { return w.info }

// Free implements engine.Weights.
func (w *Weights) Free() error { return w.device.Free(w.base) }
