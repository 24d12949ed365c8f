package calibrate

import (
	"errors"
	"time"

	"troupe/core/cost"
	"troupe/engine"
)

// measureSwitches measures what a switch takes beside the load: KV memory and engine, graphs, the first
// step, standby and back.
func (b *bench) measureSwitches(s *cost.Switches) error {
	var opened, captured, first, standby, active, freed []time.Duration
	cycle := func() (all time.Duration, err error) {
		measure := func(into *[]time.Duration, f func() error) {
			if err != nil {
				return
			}
			var took time.Duration
			if took, err = timed(f); err == nil {
				*into = append(*into, took)
				all += took
			}
		}
		measure(&opened, b.open)
		measure(&captured, b.capture)
		measure(&first, b.decodeOne)
		if err == nil && b.resizable() {
			measure(&standby, func() error { return b.resize(b.least()) })
			measure(&active, func() error { return b.resize(b.spec.KVBlocks) })
		}
		measure(&freed, b.close)
		return all, err
	}
	if _, err := b.rounds("switches of "+b.name, b.budget(switchesShare), []part{cycle}); err != nil {
		return errors.Join(err, b.close())
	}
	s.Open, s.Capture, s.First = b.duration(opened), b.duration(captured), b.duration(first)
	s.Standby, s.Activate, s.Free = b.duration(standby), b.duration(active), b.duration(freed)
	return nil
}

func (b *bench) decodeOne() error {
	_, err := b.engine.Step(b.ctx, []engine.Sequence{b.sequence(1, 0, 0, true)})
	return err
}

// least is the number of KV blocks that a replica on standby keeps: those of one sequence of full
// length.
func (b *bench) least() int {
	return min(b.spec.KVBlocks, max(1, b.info.ContextTokens/b.BlockTokens))
}

func (b *bench) resize(blocks int) error {
	_, err := b.store.Resize(lease, blocks)
	return err
}

// resizable reports whether the KV memory of the device can be resized in place.
func (b *bench) resizable() bool {
	return b.least() < b.spec.KVBlocks && !errors.Is(b.resize(b.spec.KVBlocks), errors.ErrUnsupported)
}
