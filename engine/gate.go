package engine

import (
	"context"
	"fmt"

	"troupe/cuda"
)

// Gate keeps a step from reading KV blocks before they are written. It lets a step run layer by
// layer while the blocks of one of its sequences are still being restored. One step uses it at a
// time and passes the layers in order. A repeated step starts again with the first layer.
type Gate interface {
	// Pass blocks until a layer of the blocks is certain to arrive: it was checked, and its copy is
	// queued. After the event ready, this layer and all layers before next may be read on the
	// device. A nil event means that they can be read now. If Pass returns an error, the blocks do
	// not arrive.
	Pass(ctx context.Context, layer int) (ready cuda.Event, next int, err error)
}

// StepAborted is the error of a step whose gate failed. The step returned no tokens and wrote only
// to the KV slots it was given. It may be repeated without the sequence.
type StepAborted struct {
	Sequence int // index in the batch
	Err      error
}

func (v *StepAborted) Error() string {
	return fmt.Sprintf("sequence %d of the step: %v", v.Sequence, v.Err)
}

func (v *StepAborted) Unwrap() error { return v.Err }
