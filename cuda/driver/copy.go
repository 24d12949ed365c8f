//go:build linux

package driver

import (
	"fmt"

	"troupe/cuda"
)

func (s *stream) CopyIn(dst cuda.Ptr, src []byte) error {
	return s.transfer(cuda.Transfer{Dst: dst, Host: src})
}

func (s *stream) CopyOut(dst []byte, src cuda.Ptr) error {
	return s.transfer(cuda.Transfer{Src: src, Host: dst})
}

func (s *stream) Copy(dst, src cuda.Ptr, bytes int64) error {
	return s.transfer(cuda.Transfer{Dst: dst, Src: src, Bytes: bytes})
}

func (s *stream) transfer(t cuda.Transfer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queueCopy(t)
}

// CopyBatch implements cuda.BatchCopier.
func (s *stream) CopyBatch(copies []cuda.Transfer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range copies {
		if err := s.queueCopy(t); err != nil {
			return err
		}
	}
	return s.flush()
}

// queueCopy checks a copy and queues it. The lock is held.
func (s *stream) queueCopy(t cuda.Transfer) error {
	memory, host, n := &s.dev.memory, &s.dev.host, int64(len(t.Host))
	switch {
	case t.Host == nil && t.Bytes != 0:
		return s.queueChecked(s.dev.lib.Copy, "copy", side{memory, t.Dst}, side{memory, t.Src}, t.Bytes)
	case t.Src == 0 && n > 0:
		return s.queueChecked(s.dev.lib.CopyIn, "copy in", side{memory, t.Dst}, side{host, pointer(t.Host)}, n)
	case n > 0:
		return s.queueChecked(s.dev.lib.CopyOut, "copy out", side{host, pointer(t.Host)}, side{memory, t.Src}, n)
	}
	return s.ready()
}

// side is one end of a copy.
type side struct {
	in *spans
	at cuda.Ptr
}

func (s *stream) queueChecked(fn symbol, op string, to, from side, bytes int64) error {
	if err := s.check(op, bytes, to, from); err != nil {
		return err
	}
	return s.queue(op, fn, uintptr(to.at), uintptr(from.at), uintptr(bytes), s.handle)
}

// check makes a copy outside allocated memory a fault.
func (s *stream) check(op string, bytes int64, sides ...side) error {
	if err := s.ready(); err != nil {
		return err
	}
	for _, end := range sides {
		if end.in.covers(end.at, bytes) {
			continue
		}
		reason := fmt.Sprintf("illegal address: [%#x, +%d) is not in one allocation", uint64(end.at), bytes)
		if end.in == &s.dev.host {
			reason = fmt.Sprintf("host memory of %d bytes is not page-locked: use AllocHost", bytes)
		}
		s.fault = &cuda.Fault{Op: op, Reason: reason}
		return s.fault
	}
	return nil
}
