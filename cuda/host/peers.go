package host

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"troupe/cuda"
)

// Properties implements cuda.Describer. A worker stands for a multiprocessor.
func (d *device) Properties() cuda.Properties {
	return cuda.Properties{Driver: "host, " + runtime.Version(), Multiprocessors: d.Workers}
}

// Reaches implements cuda.Peers: software devices of one process reach each other.
func (d *device) Reaches(other cuda.Device) bool {
	_, ok := other.(*device)
	return ok
}

// EnablePeer implements cuda.Peers.
func (d *device) EnablePeer(other cuda.Device) error {
	if !d.Reaches(other) {
		return fmt.Errorf("cuda: %s cannot access %s: %w", d.Name, other.Info().Name, errors.ErrUnsupported)
	}
	return nil
}

// CopyPeer implements cuda.PeerCopier.
func (s *stream) CopyPeer(dst cuda.Ptr, from cuda.Device, src cuda.Ptr, bytes int64) error {
	peer, ok := from.(*device)
	if !ok {
		return fmt.Errorf("cuda: %s cannot access %s: %w", s.dev.Name, from.Info().Name, errors.ErrUnsupported)
	}
	return s.give(command{kind: copyPeer, to: dst, from: src, bytes: bytes, peer: peer})
}

// hold prevents freeing memory of d, and of a peer if there is one, until release is called. It
// locks two devices in a fixed order.
func (d *device) hold(peer *device) (release func()) {
	if peer == nil || peer == d {
		d.busy.RLock()
		return d.busy.RUnlock
	}
	first, second := d, peer
	if uintptr(unsafe.Pointer(first)) > uintptr(unsafe.Pointer(second)) {
		first, second = second, first
	}
	first.busy.RLock()
	second.busy.RLock()
	return func() { second.busy.RUnlock(); first.busy.RUnlock() }
}
