package engine

import (
	"context"
	"fmt"

	"troupe/cuda"
)

// Gate keeps a step from reading KV blocks that are still being written, layer by layer: those that are restored while the step that needs them
// runs already. It is used by one step at a time, which asks for the layers in order; a step that is run again asks anew.
type Gate interface {
	// Pass blocks until it is certain that a layer of the blocks comes: what is copied was checked, and is on its way. Ready is the event after
	// which that layer, and all before the layer next, may be read on the device; nil: they are there. An error says that they do not come.
	Pass(ctx context.Context, layer int) (ready cuda.Event, next int, err error)
}

// StepAborted is the error of a step that did not happen, since a gate did not open: nothing was chosen, and what it wrote is only in KV slots that
// it was given to write to. It may be run again, without that sequence.
type StepAborted struct {
	Sequence int // of the batch
	Err      error
}

func (v *StepAborted) Error() string {
	return fmt.Sprintf("sequence %d of the step: %v", v.Sequence, v.Err)
}

func (v *StepAborted) Unwrap() error { return v.Err }
