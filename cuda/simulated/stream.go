package simulated

import (
	"fmt"

	"troupe/cuda"
)

// stream refuses all work: there are no bytes to work on.
type stream struct{}

func refuse(op string) error {
	return &cuda.Fault{Op: op, Reason: "a simulated device holds no bytes and runs no kernels"}
}

func (stream) CopyIn(cuda.Ptr, []byte) error     { return refuse("copy in") }
func (stream) CopyOut([]byte, cuda.Ptr) error    { return refuse("copy out") }
func (stream) Copy(_, _ cuda.Ptr, _ int64) error { return refuse("copy") }
func (stream) Record() (cuda.Event, error)       { return event{}, nil }
func (stream) Wait(cuda.Event) error             { return nil }
func (stream) Sync() error                       { return nil }
func (stream) Close() error                      { return nil }
func (stream) Launch(op cuda.Op) error {
	return fmt.Errorf("%w: %w", refuse(op.Kernel()), cuda.ErrUnknownKernel)
}

// event has always occurred.
type event struct{}

func (event) Done() bool  { return true }
func (event) Sync() error { return nil }
