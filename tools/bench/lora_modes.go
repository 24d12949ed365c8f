package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"troupe/core/lora"
	"troupe/cuda"
	"troupe/cuda/host"
	"troupe/engine"
	"troupe/engine/llama"
	"troupe/engine/residency"
	"troupe/testkit/adapters"
)

const modeSequences, modeRounds = 64, 101

// mixes assign adapters to the sequences of a step. Sequences with the same adapter are adjacent;
// -1 means none.
var mixes = []struct {
	name string
	of   func(i int) int
}{
	{"all with one adapter", func(int) int { return 0 }},
	{"8 different adapters", func(i int) int { return i / 8 }},
	{"32 different adapters", func(i int) int { return i / 2 }},
	{"half without, half with 32 different", func(i int) int { return i - modeSequences/2 }},
}

// modeRanks are the ranks of the adapters, used in turn.
var modeRanks = []int{16, 8, 32, 16}

func loraModes() (s section, err error) {
	s = section{
		title: "Adapters in a step",
		how: fmt.Sprintf("A step that decodes %d sequences, compared to the same step without adapters, alternating: "+
			"the cost of all projections of adapters on the device, whose ranks are %v in turn. Batched, "+
			"as in replicas: each of the two kernels runs once per projection, whatever the mix. Grouped: "+
			"once per adapter. Naive: once per sequence. The model is small: adapters of rank 16 have an "+
			"eighth of its parameters, so their share of the time is large.", modeSequences, modeRanks),
	}
	steppers := make([]*stepper, llama.Naive+1)
	defer func() {
		for _, st := range steppers {
			if st != nil {
				err = errors.Join(err, st.close())
			}
		}
	}()
	for mode := range steppers {
		if steppers[mode], err = newStepper(llama.LoRAMode(mode)); err != nil {
			return s, err
		}
	}
	for _, mix := range mixes {
		over, err := compare(steppers, mix.of)
		if err != nil {
			return s, err
		}
		s.rows = append(s.rows, row{
			mix.name + ": step over the base's, batched, grouped, naive",
			fmt.Sprintf("%.2f, %.2f, %.2f", over[0], over[1], over[2]),
			"batched the least, or within 2 % of it", yesNo(over[llama.Batched] <= 1.02*slices.Min(over)),
		})
	}
	return s, nil
}

// compare runs steps of all modes and of the base model alternately. It returns the median ratio of
// each mode to the base.
func compare(steppers []*stepper, of func(i int) int) ([]float64, error) {
	base := steppers[0].step(func(int) int { return -1 })
	ratios := make([][]float64, len(steppers))
	for range modeRounds {
		b, err := timed(base)
		if err != nil {
			return nil, err
		}
		for mode, st := range steppers {
			t, err := timed(st.step(of))
			if err != nil {
				return nil, err
			}
			ratios[mode] = append(ratios[mode], float64(t)/float64(b))
		}
	}
	var medians []float64
	for _, r := range ratios {
		medians = append(medians, median(r))
	}
	return medians, nil
}

// stepper is an engine with one LoRA mode and 32 adapters on its device.
type stepper struct {
	device cuda.Device
	memory *engine.AdapterMemory
	engine engine.Engine
	loaded []*engine.Adapter
}

func newStepper(mode llama.LoRAMode) (_ *stepper, err error) {
	s := &stepper{}
	if s.device, err = host.Open(host.Config{MemoryBytes: 1 << 30}); err != nil {
		return nil, err
	}
	h := residency.NewStore(s.device, llama.Loader{Adapters: mode})
	limits := engine.Limits{
		StepTokens: modeSequences, MaxSequences: modeSequences, MaxAdapters: 32, MaxRank: slices.Max(modeRanks),
	}
	if _, err := h.Load(
		context.Background(),
		engine.LoadSpec{Lease: "bench", Path: model, BlockTokens: 16, KVBlocks: 2048, Limits: limits},
	); err != nil {
		return nil, err
	}
	if s.engine, err = h.Open("bench"); err != nil {
		return nil, err
	}
	if s.memory, err = engine.NewAdapterMemory(s.device, 128, 128); err != nil {
		return nil, err
	}
	pages := lora.NewPages(s.memory.PageNumbers())
	for i := range 32 {
		if err := s.load(
			pages, adapters.Random(adapters.KJV, modeRanks[i%len(modeRanks)], uint64(i), adapters.Everywhere),
		); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *stepper) load(pages *lora.Pages, file engine.AdapterFile) error {
	staged, err := s.memory.Stage(context.Background(), file)
	if err != nil {
		return err
	}
	at, ok := pages.Allocate(file.Layout.Pages())
	if !ok {
		return errors.New("too few pages for 32 adapters")
	}
	adapter, err := s.memory.Load(context.Background(), file, staged.Bytes(), nil, at)
	s.loaded = append(s.loaded, adapter)
	return errors.Join(err, staged.Free())
}

// step returns a function that decodes one token of every sequence.
func (s *stepper) step(of func(i int) int) func() error {
	var batch []engine.Sequence
	for i := range modeSequences {
		q := sequence(i, 40, 5)
		if which := of(i); which >= 0 {
			q.Adapter = s.loaded[which]
		}
		batch = append(batch, q)
	}
	return func() error {
		_, err := s.engine.Step(context.Background(), batch)
		return err
	}
}

func (s *stepper) close() error {
	return errors.Join(s.engine.Close(), s.memory.Close(), s.device.Close())
}
