package simulated

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"troupe/core/cost"
	"troupe/core/sample"
	"troupe/engine"
)

// timedEngine is an engine whose steps only take time. It keeps nothing between steps.
type timedEngine struct {
	weights *weights
	arena   engine.Arena
}

// Step implements engine.Engine.
func (e *timedEngine) Step(ctx context.Context, batch []engine.Sequence) ([]sample.Token, error) {
	var step cost.Step
	var tokens []sample.Token
	for i, s := range batch {
		if err := e.check(s); err != nil {
			return nil, fmt.Errorf("sequence %d of the step: %w", i, err)
		}
		if s.Gate != nil {
			return nil, &engine.StepAborted{Sequence: i, Err: errors.New("a simulated engine restores no KV blocks")}
		}
		if len(s.Tokens) == 1 && s.Position > 0 {
			step = step.AddDecode(s.Position)
		} else {
			step = step.AddPrompt(len(s.Tokens), s.Position)
		}
		if s.Sample {
			tokens = append(tokens, sample.Token{ID: e.weights.words.next(s)})
		}
	}
	if err := e.weights.loader.wait(ctx, e.weights.steps.Time(step)); err != nil {
		return nil, err
	}
	return tokens, nil
}

// check checks the block table of a sequence, as an engine that uses the blocks does.
func (e *timedEngine) check(s engine.Sequence) error {
	last := s.Position + len(s.Tokens)
	if len(s.Tokens) == 0 || len(s.Blocks)*e.arena.BlockTokens < last {
		return fmt.Errorf("%d blocks of %d tokens for %d tokens at position %d", len(s.Blocks), e.arena.BlockTokens,
			len(s.Tokens), s.Position)
	}
	blocks := e.arena.Blocks()
	if i := slices.IndexFunc(s.Blocks, func(b int32) bool { return b < 0 || int(b) >= blocks }); i >= 0 {
		return fmt.Errorf("block %d of %d", s.Blocks[i], blocks)
	}
	if s.Adapter != nil {
		return errors.New("a simulated engine has no adapters")
	}
	return nil
}

// Close implements engine.Engine.
func (e *timedEngine) Close() error { return nil }
