//go:build linux

package driver

import (
	"errors"
	"fmt"

	"troupe/cuda"
)

var errCapturing = errors.New("cuda: Record, Wait and Sync are not allowed while the stream is captured")

// relaxed allows a capture to begin and end on different threads, as goroutines do.
const relaxed = 2

// graphOpBytes is the device memory that a driver takes for an operation in a graph, at most. Drivers do not
// report it, and free memory also changes by what other users of the device allocate. So this is an assumption:
// up to eight kernels, each with 4 KiB of parameters, which is the limit of CUDA. `make gpu-check`, which has
// the device to itself, compares it with a measurement.
const graphOpBytes = 32 << 10

// Capture implements cuda.Capturer.
func (s *stream) Capture(give func() error) (cuda.Graph, error) {
	if err := s.setCapture(true, s.dev.lib.CaptureBegin, s.handle, relaxed); err != nil {
		return nil, err
	}
	given := give()
	graph := out[uintptr]()
	err := errors.Join(given, s.setCapture(false, s.dev.lib.CaptureEnd, s.handle, address(graph)))
	if *graph == 0 {
		return nil, err
	}
	defer func() { _ = s.dev.giveBack("free a captured graph", s.dev.lib.GraphDestroy, *graph) }()
	if err != nil {
		return nil, err
	}
	exec := out[uintptr]()
	if err := s.dev.call("instantiate a graph", s.dev.lib.GraphInstantiate, address(exec), *graph, 0); err != nil {
		return nil, err
	}
	g := &graphExec{dev: s.dev, handle: *exec}
	s.dev.own(g, func() error { return g.dev.giveBack("free a graph", g.dev.lib.GraphExecDestroy, g.handle) })
	return g, nil
}

// setCapture begins or ends a capture after handing over all queued work. It ends a capture even if
// the stream has failed.
func (s *stream) setCapture(on bool, fn symbol, args ...uintptr) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if on && s.capturing {
		return errCapturing
	}
	err := errors.Join(s.ready(), s.flush())
	if err != nil && on {
		return err
	}
	crossed := s.dev.callIn(s.events.context, "capture stream "+s.name, fn, args...)
	s.capturing = on && crossed == nil
	return errors.Join(err, crossed)
}

// graphExec is a graph that can be launched.
type graphExec struct {
	dev    *device
	handle uintptr
}

func (g *graphExec) Launch(on cuda.Stream) error {
	s, ok := on.(*stream)
	if !ok || s.dev != g.dev {
		return fmt.Errorf("cuda: graph of GPU %d launched on a stream of another device", g.dev.info.Index)
	}
	if !g.dev.owns(g) {
		return errors.New("cuda: the graph is closed")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.capturing {
		return errCapturing
	}
	if err := s.queue("graph", g.dev.lib.GraphLaunch, g.handle, s.handle); err != nil {
		return err
	}
	return s.flush() // before the graph can be closed
}

// Close frees the graph. Running launches continue.
func (g *graphExec) Close() error { return g.dev.disown(g) }
