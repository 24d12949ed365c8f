package calibrate

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"

	"troupe/core/cost"
	core "troupe/core/residency"
	"troupe/core/sample"
	"troupe/engine"
	"troupe/engine/residency"
)

const (
	// mostTokens is the KV memory of the grid, in tokens.
	mostTokens = 32 << 10
	// fillTokens is the longest sequence that is computed to fill the KV memory.
	fillTokens = 4 << 10
	// fillShare is the share of the time for that. KV memory beyond it keeps what was there.
	fillShare = 0.2
	// shortStep is the time below which a step is run once before it is measured. Steps of a replica follow
	// each other, so that weights may be in a cache; here another step of the grid came before.
	shortStep = 20 * time.Millisecond
	lease     = "calibrate"
	weights   = 1 // number of the copy
)

// bench is a model on the device with an engine.
type bench struct {
	*run
	name   string
	info   engine.ModelInfo
	store  *residency.Store
	spec   engine.LoadSpec
	engine engine.Engine // nil: closed
	random *rand.Rand
}

// measureSteps measures the switches and the steps of a model.
func (r *run) measureSteps(path string, info engine.ModelInfo, s *cost.Switches) (steps cost.Stepped, noise cost.Noise,
	err error) {
	b := &bench{run: r, name: filepath.Base(path), info: info, random: rand.New(rand.NewPCG(1, 2)),
		store: residency.NewStore(r.Device, r.Loader)}
	if _, err := b.store.LoadWeights(r.ctx, weights, core.Source{Path: path}, ""); err != nil {
		return steps, noise, err
	}
	defer func() { err = errors.Join(err, b.close(), b.store.FreeWeights(weights)) }()
	b.spec = engine.LoadSpec{Lease: lease, Path: path, BlockTokens: r.BlockTokens, Limits: r.Limits}
	if b.spec.KVBlocks, err = b.blocks(); err != nil {
		return steps, noise, err
	}
	if err := b.measureSwitches(s); err != nil {
		return steps, noise, err
	}
	if err := errors.Join(b.open(), b.capture(), b.fill()); err != nil {
		return steps, noise, err
	}
	return b.measureGrid()
}

// blocks returns the number of KV blocks for the grid.
func (b *bench) blocks() (int, error) {
	free, _ := b.Device.Memory()
	block := b.info.KVTokenBytes * int64(b.BlockTokens)
	left := free - b.info.WorkspaceBytes(b.Limits) - b.info.GraphMemory(b.Limits) - free/16 // what allocation rounds up
	wanted := min(mostTokens, b.Limits.MaxSequences*b.info.ContextTokens) / b.BlockTokens
	if fit := int(max(0, left) / block); fit < b.Limits.MaxSequences {
		return 0, fmt.Errorf("the device has %d bytes free beside the weights, too few for the KV blocks of %d "+
			"sequences; use a larger device", max(0, left), b.Limits.MaxSequences)
	} else if fit < wanted {
		return fit, nil
	}
	return wanted, nil
}

func (b *bench) open() (err error) {
	if _, err := b.store.Lease(b.spec, weights, lease); err != nil {
		return err
	}
	b.engine, err = b.store.Open(lease)
	return err
}

func (b *bench) capture() error {
	_, err := engine.CaptureGraphs(b.ctx, b.engine)
	return err
}

// close closes the engine and frees its KV memory.
func (b *bench) close() (err error) {
	if b.engine != nil {
		err = b.engine.Close()
		b.engine = nil
	}
	_, failed := b.store.Unload(lease)
	return errors.Join(err, failed)
}

// fill computes the tokens that the sequences of the grid find in their blocks.
func (b *bench) fill() error {
	end := time.Now().Add(b.budget(fillShare * stepsShare))
	per := min(fillTokens, b.info.ContextTokens) / b.BlockTokens
	for first := 0; first < b.spec.KVBlocks; first += per {
		last := min(first+per, b.spec.KVBlocks)
		for at := 0; at < (last-first)*b.BlockTokens; {
			if time.Now().After(end) {
				return nil
			}
			b.report("filling KV blocks of " + b.name)
			n := min(b.Limits.StepTokens, (last-first)*b.BlockTokens-at)
			s := b.sequence(n, at, first, false)
			if _, err := b.engine.Step(b.ctx, []engine.Sequence{s}); err != nil {
				return err
			}
			at += n
		}
	}
	return nil
}

// sequence returns n tokens after others, in blocks from the given one on.
func (b *bench) sequence(n, before, block int, samples bool) engine.Sequence {
	s := engine.Sequence{Position: before, Sample: samples, Sampling: sample.Params{
		Temperature: 1, Seed: b.random.Uint64(),
	}}
	for range n {
		s.Tokens = append(s.Tokens, b.random.Uint32N(uint32(b.info.Vocab)))
	}
	for i := range (before + n + b.BlockTokens - 1) / b.BlockTokens {
		s.Blocks = append(s.Blocks, int32(block+i))
	}
	return s
}

// point is a step of the grid.
type point struct {
	step  cost.Step
	batch []engine.Sequence
}

// grid returns the steps to measure: decodes, prompts, and both in one step.
func (b *bench) grid() (all []point) {
	most := min(b.Limits.MaxSequences, b.Limits.StepTokens)
	add := func(prompt, before, decode, context int) {
		if p, ok := b.point(prompt, before, decode, context); ok {
			all = append(all, p)
		}
	}
	for decode := 1; decode < 2*most; decode *= 2 {
		n := min(decode, most)
		longest := b.longest(n)
		for _, context := range []int{min(b.BlockTokens, longest/8), longest / 2, longest - 1} {
			add(0, 0, n, context)
		}
	}
	for prompt := 4; prompt < 4*b.Limits.StepTokens; prompt *= 4 {
		n := min(prompt, b.Limits.StepTokens)
		for _, before := range []int{0, (b.longest(1) - n) / 2, b.longest(1) - n} {
			add(n, before, 0, 0)
		}
	}
	for _, decode := range []int{1, 4, 16, most / 2} {
		longest := b.longest(decode + 1)
		for _, prompt := range []int{64, min(longest, b.Limits.StepTokens-decode)} {
			add(prompt, 0, decode, longest/2)
			add(prompt, (longest-prompt)/2, decode, longest-1)
		}
	}
	return all
}

// longest returns the most tokens of each of n sequences.
func (b *bench) longest(n int) int {
	return min(b.info.ContextTokens, b.spec.KVBlocks/max(1, n)*b.BlockTokens)
}

// point returns a step with a part of a prompt and sequences that decode, if the model can run it.
func (b *bench) point(prompt, before, decode, context int) (p point, ok bool) {
	sequences := decode + min(prompt, 1)
	longest := b.longest(sequences)
	if sequences == 0 || sequences > b.Limits.MaxSequences || prompt+decode > b.Limits.StepTokens || before < 0 ||
		prompt+before > longest || context < 1 && decode > 0 || context >= longest {
		return p, false
	}
	per := b.spec.KVBlocks / sequences
	for i := range decode {
		p.batch = append(p.batch, b.sequence(1, context, i*per, true))
		p.step = p.step.AddDecode(context)
	}
	if prompt > 0 {
		p.batch = append(p.batch, b.sequence(prompt, before, decode*per, true))
		p.step = p.step.AddPrompt(prompt, before)
	}
	return p, true
}

// measureGrid measures the steps of the grid, and fits their costs.
func (b *bench) measureGrid() (steps cost.Stepped, noise cost.Noise, err error) {
	grid := b.grid()
	parts := make([]part, len(grid))
	for i, p := range grid {
		last := time.Duration(0)
		parts[i] = func() (_ time.Duration, err error) {
			if last < shortStep {
				if _, err := b.step(p); err != nil {
					return 0, err
				}
			}
			last, err = b.step(p)
			return last, err
		}
	}
	took, err := b.rounds(fmt.Sprintf("%d steps of %s", len(grid), b.name), b.budget(stepsShare*(1-fillShare)), parts)
	if err != nil {
		return steps, noise, err
	}
	all := make([]cost.Measurement, len(grid))
	for i, p := range grid {
		all[i] = cost.Measurement{Step: p.step, Took: median(took[i])}
		steps.Largest.Prompt = max(steps.Largest.Prompt, p.step.Prompt)
		steps.Largest.Decode = max(steps.Largest.Decode, p.step.Decode)
		steps.Largest.Context = max(steps.Largest.Context, p.step.Context)
	}
	steps.Steps, steps.Residuals, err = cost.Fit(all)
	steps.Origin = b.origin
	return steps, noiseOf(took), err
}

func (b *bench) step(p point) (time.Duration, error) {
	return timed(func() error {
		_, err := b.engine.Step(b.ctx, p.batch)
		return err
	})
}

// noiseOf returns how much the rounds of each step differ.
func noiseOf(took [][]time.Duration) (n cost.Noise) {
	var spreads []float64
	for _, all := range took {
		spreads = append(spreads, float64(quantile(all, 0.75)-quantile(all, 0.25))/float64(median(all)))
	}
	slices.Sort(spreads)
	n.Median, n.P95 = spreads[len(spreads)/2], spreads[len(spreads)*95/100]
	n.Noisy = n.Median > cost.NoisyAbove
	return n
}
