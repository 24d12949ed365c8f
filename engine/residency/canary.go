package residency

import (
	"context"
	"errors"
	"fmt"
	"time"

	"troupe/core/verify"
	"troupe/cuda"
	"troupe/engine"
)

// canaryTimeout bounds a canary. It ends a step that hangs, if the device can end it.
const canaryTimeout = time.Minute

// canaryBlockTokens is the size of the only KV block of a canary.
const canaryBlockTokens = 16

// CanaryKey returns what a canary of weights depends on.
func (s *Store) CanaryKey(w engine.Weights) verify.Key {
	info := s.device.Info()
	kind := fmt.Sprintf("%s, %v", info.Name, info.Weights)
	if d, err := cuda.As[cuda.Describer](s.device); err == nil {
		p := d.Properties()
		kind += fmt.Sprintf(", %s, %d.%d, %s", p.Driver, p.Major, p.Minor, p.GEMMBackend)
	}
	version := s.canaries.cfg.Version
	if l, ok := s.loader.(engine.Versioned); ok {
		version += ", " + l.Version()
	}
	return verify.Key{Revision: w.Digests().Revision, Layout: w.Info().WeightLayout, Device: kind, Engine: version}
}

// runCanary computes the output of a canary with an engine and a KV block of its own, which it frees. The
// memory is that of the lease that the weights are loaded for, which has no engine yet.
func (s *Store) runCanary(ctx context.Context, w engine.Weights, prompt []uint32) (tokens []uint32, err error) {
	info := w.Info()
	ctx, cancel := s.canaries.cfg.WithTimeout(ctx, canaryTimeout)
	defer cancel()
	bytes := info.KVTokenBytes * canaryBlockTokens
	base, err := s.device.Alloc(bytes)
	if err != nil {
		return nil, fmt.Errorf("KV memory of a canary: %w", err)
	}
	defer func() { err = errors.Join(err, s.device.Free(base)) }()
	arena := engine.Arena{
		Base: base, Blocks: func() int { return 1 }, MaxBlocks: 1, BlockTokens: canaryBlockTokens, BlockBytes: bytes,
	}
	e, err := w.Open(arena, engine.Limits{StepTokens: len(prompt), MaxSequences: 1})
	if err != nil {
		return nil, fmt.Errorf("engine of a canary: %w", err)
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	next, position := prompt, 0
	for range verify.Outputs(len(prompt), info.ContextTokens) {
		// The zero value of Sampling is greedy.
		step := []engine.Sequence{{Tokens: next, Position: position, Blocks: []int32{0}, Sample: true}}
		out, err := e.Step(ctx, step)
		if err != nil {
			return nil, fmt.Errorf("step of a canary: %w", err)
		}
		if out[0].NotFinite {
			return append(tokens, verify.NotFinite), nil
		}
		tokens, position, next = append(tokens, out[0].ID), position+len(next), []uint32{out[0].ID}
	}
	return tokens, nil
}
