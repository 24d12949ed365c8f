//go:build linux

package driver

import (
	"errors"
	"fmt"

	"troupe/cuda"
)

// peer returns another device of the same library.
func (d *device) peer(other cuda.Device) (*device, error) {
	p, ok := other.(*device)
	if !ok || p.lib != d.lib {
		return nil, fmt.Errorf(
			"cuda: %s and %s are of different drivers: %w",
			other.Info().UUID,
			d.info.UUID,
			errors.ErrUnsupported,
		)
	}
	return p, nil
}

// Reaches implements cuda.Peers.
func (d *device) Reaches(other cuda.Device) bool {
	p, err := d.peer(other)
	if err != nil {
		return false
	}
	can := out[int32]()
	err = d.lib.call("query peer access", d.lib.PeerReaches, address(can), d.handle, p.handle)
	return err == nil && *can != 0
}

// EnablePeer implements cuda.Peers.
func (d *device) EnablePeer(other cuda.Device) error {
	p, err := d.peer(other)
	if err != nil {
		return err
	}
	if !d.Reaches(other) {
		return fmt.Errorf(
			"cuda: GPU %d cannot access the memory of GPU %d: %w",
			d.info.Index,
			p.info.Index,
			errors.ErrUnsupported,
		)
	}
	err = d.call("enable a peer", d.lib.PeerEnable, p.context, 0)
	if fault := (*cuda.Fault)(nil); errors.As(err, &fault) && fault.Code == peerAlreadyEnabled {
		return nil
	}
	return err
}

// CopyPeer implements cuda.PeerCopier. The loss of the other device is not that of the stream's own.
func (s *stream) CopyPeer(dst cuda.Ptr, from cuda.Device, src cuda.Ptr, bytes int64) error {
	p, err := s.dev.peer(from)
	if err != nil {
		return err
	}
	if lost := p.usable(); lost != nil {
		return fmt.Errorf("cuda: GPU %d copies from GPU %d: %v", s.dev.info.Index, p.info.Index, lost)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if bytes == 0 {
		return s.ready()
	}
	if err := s.check("copy", bytes, side{&s.dev.memory, dst}, side{&p.memory, src}); err != nil {
		return err
	}
	return s.queue(
		"copy",
		s.dev.lib.CopyPeer,
		uintptr(dst),
		s.dev.context,
		uintptr(src),
		p.context,
		uintptr(bytes),
		s.handle,
	)
}
