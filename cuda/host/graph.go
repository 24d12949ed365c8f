package host

import (
	"errors"
	"fmt"

	"troupe/cuda"
)

var errCapturing = errors.New("cuda: Record, Wait and Sync are not allowed while the stream is captured")

// graph is the work queued on a stream during a capture.
type graph struct {
	dev    *device
	work   []command
	closed bool
}

func (g *graph) add(work []command) error {
	for _, c := range work {
		if c.kind == record || c.kind == wait {
			return errCapturing
		}
	}
	g.work = append(g.work, work...)
	return nil
}

// Capture implements cuda.Capturer.
func (s *stream) Capture(give func() error) (cuda.Graph, error) {
	g := &graph{dev: s.dev}
	if err := s.capture(nil, g); err != nil {
		return nil, err
	}
	err := give()
	if err = errors.Join(err, s.capture(g, nil)); err != nil {
		return nil, err
	}
	return g, nil
}

// capture changes the graph that records work.
func (s *stream) capture(from, to *graph) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.graph != from:
		return errCapturing
	case s.closed:
		return errClosed
	}
	s.graph = to
	return s.fault
}

func (g *graph) Launch(on cuda.Stream) error {
	s, ok := on.(*stream)
	if !ok || s.dev != g.dev {
		return fmt.Errorf("cuda: graph of device %d launched on a stream of another device", g.dev.Index)
	}
	if g.closed {
		return errors.New("cuda: the graph is closed")
	}
	return s.give(g.work...)
}

func (g *graph) Close() error {
	if g.closed {
		return errors.New("cuda: the graph is already closed")
	}
	g.closed = true
	return nil
}

// CopyBatch implements cuda.BatchCopier.
func (s *stream) CopyBatch(copies []cuda.Transfer) error {
	work := make([]command, len(copies))
	for i, t := range copies {
		switch {
		case t.Host == nil:
			work[i] = command{kind: copyWithin, to: t.Dst, from: t.Src, bytes: t.Bytes}
		case t.Src == 0:
			work[i] = command{kind: copyIn, to: t.Dst, host: t.Host}
		default:
			work[i] = command{kind: copyOut, host: t.Host, from: t.Src}
		}
	}
	return s.give(work...)
}
