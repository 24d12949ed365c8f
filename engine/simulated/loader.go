// Package simulated is an engine that computes nothing, on a simulated device (cuda/simulated). A cost model
// says how long loads and steps take, and the engine waits that long without using a processor.
//
// # Models
//
// A model is a folder with config.json and a tokenizer, as of a model that is served for real. It needs no
// weights. Weights and KV blocks have 16 bits. The digests name the folder's files and this package, so
// replicas of different engines never share a revision.
//
// # Time
//
// The costs of a step are those of the device's profile if it was measured with a model of the same shape, and
// otherwise those that core/cost predicts from the facts of the device. A load takes what the profile says of
// its folder, or else of copies from the host; what the profile does not have takes no time.
//
// # Tokens
//
// A token depends on the position, the token before it, and the seed if the request samples. So a sequence that
// continues elsewhere gets the same tokens. They are words of the tokenizer in random order, and one in
// MeanOutput ends the sequence. Of the sampling parameters, Banned and Allowed have an effect.
package simulated

import (
	"context"
	"errors"
	"fmt"
	"time"

	"troupe/core/cost"
	"troupe/cuda"
	"troupe/engine"
	"troupe/engine/llama"
	"troupe/modelfile"
	"troupe/modelfile/digest"
)

// Clock is the part of supervise.Runtime that an engine waits with.
type Clock interface {
	After(d time.Duration) <-chan time.Time
}

// Loader loads models onto simulated devices.
type Loader struct {
	Roots   modelfile.Roots // folders that models may be read from
	Digests *digest.Cache   // of files read before; nil: every load reads all files
	Clock   Clock
}

// profiled is a device with a profile.
type profiled interface {
	Profile() (p cost.Profile, group int)
}

// Inspect implements engine.Loader.
func (l Loader) Inspect(path string, _ cuda.Info) (engine.ModelInfo, error) {
	_, info, err := l.inspect(path)
	return info, err
}

func (l Loader) inspect(path string) (cost.Model, engine.ModelInfo, error) {
	c, err := llama.ReadConfig(l.Roots, path)
	if err != nil {
		return cost.Model{}, engine.ModelInfo{}, err
	}
	m := cost.Model{Name: path, Layers: c.Layers, Hidden: c.Hidden, Intermediate: c.Intermediate, Vocab: c.Vocab,
		Heads: c.Heads, KVHeads: c.KVHeads, HeadDim: c.HeadDim, Tied: c.TiedEmbeddings,
		ContextTokens: c.ContextTokens, WeightBits: 16, KVElementBytes: 2}
	return m, engine.ModelInfo{
		Vocab: m.Vocab, ContextTokens: m.ContextTokens, EOS: c.EOS,
		WeightBytes: m.WeightBytes(), WeightLayout: "simulated",
		KVTokenBytes: m.KVTokenBytes(), KVLayout: "simulated " + c.Architecture, KVLayers: m.Layers,
	}, nil
}

// Load implements engine.Loader.
func (l Loader) Load(ctx context.Context, device cuda.Device, path string) (_ engine.Weights, err error) {
	on, err := cuda.As[profiled](device)
	if err != nil {
		return nil, fmt.Errorf("%s: a simulated model runs on simulated devices only: %w", path, err)
	}
	model, info, err := l.inspect(path)
	if err != nil {
		return nil, err
	}
	profile, group := on.Profile()
	steps, err := stepsOn(profile, group, model)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	words, err := readWords(l.Roots, path, info)
	if err != nil {
		return nil, err
	}
	digests, err := l.digests(path)
	if err != nil {
		return nil, err
	}
	at, err := device.Alloc(info.WeightBytes)
	if err != nil {
		return nil, fmt.Errorf("weights of %s: %w", path, err)
	}
	if err := l.wait(ctx, loadTime(profile, info.WeightBytes/int64(group))); err != nil {
		return nil, errors.Join(err, device.Free(at))
	}
	return &weights{loader: l, device: device, at: at, info: info, digests: digests, steps: steps, words: words}, nil
}

// Steps returns the costs of the steps of a model on a group of devices with a profile.
func (l Loader) Steps(path string, p cost.Profile, group int) (cost.Steps, error) {
	model, _, err := l.inspect(path)
	if err != nil {
		return cost.Steps{}, err
	}
	return stepsOn(p, max(1, group), model)
}

// stepsOn returns the costs of a model's steps on a group of devices.
func stepsOn(p cost.Profile, group int, m cost.Model) (cost.Steps, error) {
	if group == 1 && p.Steps != nil && p.Model != nil && p.Model.Shape() == m.Shape() {
		return p.Steps.Steps, nil
	}
	predicted, err := p.Device.Predict(m, group, cost.Peak)
	if err != nil {
		return cost.Steps{}, err
	}
	return predicted.Steps.Steps, nil
}

// loadTime returns how long a load takes, with the weights of one device of the group.
func loadTime(p cost.Profile, bytes int64) time.Duration {
	switch {
	case p.Loads.Folder != nil:
		return p.Loads.Folder.Time(bytes)
	case p.Copies.HostToDevice != nil:
		return p.Copies.HostToDevice.Time(bytes)
	case p.Device.PCIeBandwidth != nil:
		return cost.Linear{BytesPerSecond: p.Device.PCIeBandwidth.Value}.Time(bytes)
	}
	return 0
}

// wait waits without using a processor.
func (l Loader) wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	select {
	case <-l.Clock.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// digests reads the settings of a folder, and returns the digests of its simulation.
func (l Loader) digests(path string) (engine.Digests, error) {
	settings, err := digest.Settings(l.Roots, path, l.Digests)
	if err != nil {
		return engine.Digests{}, err
	}
	weights := digest.Of([]byte("simulated weights of " + settings.String())).Sum
	return engine.Digests{Weights: weights.String(), Revision: digest.Revision(weights, settings).String()}, nil
}

// CachedDigests implements engine.DigestCache. The files are small, so it reads those that it does not know.
func (l Loader) CachedDigests(path string) (d engine.Digests, changed bool) {
	d, _ = l.digests(path) // a folder that cannot be read has no digests
	return d, false
}

var _ engine.Versioned = Loader{}

// Version implements engine.Versioned.
func (l Loader) Version() string { return "simulated 1" }

type weights struct {
	loader  Loader
	device  cuda.Device
	at      cuda.Ptr
	info    engine.ModelInfo
	digests engine.Digests
	steps   cost.Steps
	words   words
}

func (w *weights) Info() engine.ModelInfo  { return w.info }
func (w *weights) Digests() engine.Digests { return w.digests }
func (w *weights) Free() error             { return w.device.Free(w.at) }

// Open implements engine.Weights.
func (w *weights) Open(arena engine.Arena, _ engine.Limits) (engine.Engine, error) {
	return &timedEngine{weights: w, arena: arena}, nil
}
