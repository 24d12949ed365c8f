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
	Graphs   GraphMode       // FastGraphs except in tests and benchmarks
	Digests  *digest.Cache   // of files read before; nil: every load hashes all files
}

// Weights is a model in device memory, in one allocation.
type Weights struct {
	Config
	info      engine.ModelInfo
	digest    engine.Digests
	device    cuda.Device
	base      cuda.Ptr
	dtype     cuda.DType // of the matrices
	mode      LoRAMode
	graphMode GraphMode
	path      string          // folder that it was loaded from
	files     modelfile.Files // of the folder, without the weights
	known     knownSums

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
	w, _, err := f.LoadWithImage(ctx, device, path, nil)
	return w, err
}

// LoadWithImage implements engine.ImageLoader.
func (f Loader) LoadWithImage(ctx context.Context, device cuda.Device, path string, memory []byte) (engine.Weights,
	*engine.Image, error) {
	files, settings, unread := digest.ReadSettings(f.Roots, path)
	m, err := inspect(f.Roots, path, device.Info())
	if err == nil {
		err = unread
	}
	if err != nil {
		return nil, nil, err
	}
	if memory != nil && int64(len(memory)) < m.info.WeightBytes {
		return nil, nil, fmt.Errorf("%d bytes for an image of %s, which needs %d", len(memory), path,
			m.info.WeightBytes)
	}
	if err := checkTiedHead(ctx, m.tensors[0], m.tiedHead); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	base, err := device.Alloc(m.info.WeightBytes)
	if err != nil {
		return nil, nil, fmt.Errorf("weights of %s: %w", path, err)
	}
	digests, sums, err := f.read(ctx, device, base, m, path, settings, memory)
	if err != nil {
		_ = device.Free(base) // err is the error to return
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	w := f.weights(device, m, base, digests, files)
	w.path = path
	if memory == nil {
		return w, nil, nil
	}
	w.setSums(sums)
	image := w.image()
	image.Sums = sums
	return w, image, nil
}

// weights returns the weights of a model that is in device memory.
func (f Loader) weights(
	device cuda.Device, m inspectedModel, base cuda.Ptr, digests engine.Digests, files modelfile.Files,
) *Weights {
	w := &Weights{
		Config: m.Config, info: m.info, device: device, base: base, dtype: m.tensors[0].dtype, mode: f.Adapters,
		graphMode: f.Graphs, digest: digests, layers: make([]layer, m.Layers), files: files,
	}
	for _, t := range m.tensors {
		t.set(w, base.Offset(t.offset))
	}
	return w
}

// read loads the tensors into device memory, and into the memory of an image if there is one. It
// returns the digests of the files that the tensors and settings came from, and the checksums of the
// image.
func (f Loader) read(
	ctx context.Context, device cuda.Device, base cuda.Ptr, m inspectedModel, path string, before digest.Sum,
	image []byte,
) (d engine.Digests, sums []engine.ImageSum, err error) {
	source := &weightReader{ctx: ctx, roots: f.Roots, cache: f.Digests, ahead: newReadAhead()}
	defer source.closeFile()
	if sums, err = upload(ctx, device, base, m.tensors, source, image); err != nil {
		return d, nil, err
	}
	if err := source.finish(); err != nil {
		return d, nil, err
	}
	files, err := safetensors.Files(f.Roots, path)
	if err == nil {
		err = source.readRest(files)
	}
	if err != nil {
		return d, nil, err
	}
	settings, err := digest.Settings(f.Roots, path, f.Digests)
	if err == nil && settings != before {
		err = digest.Changed("config.json, or the tokenizer")
	}
	weights := digest.Weights(source.files)
	return engine.Digests{Weights: weights.String(), Revision: digest.Revision(weights, settings).String()}, sums, err
}

// Digests implements engine.Weights.
func (w *Weights) Digests() engine.Digests { return w.digest }

// Info implements engine.Weights.
func (w *Weights) Info() engine.ModelInfo { return w.info }

// Free implements engine.Weights.
func (w *Weights) Free() error { return w.device.Free(w.base) }
