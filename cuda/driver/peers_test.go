//go:build linux

package driver_test

import (
	"bytes"
	"errors"
	"testing"

	"troupe/cuda"
	"troupe/testkit/fakecuda"
)

// TestLossOfPeer loses a device from which another one copies, before the copy and in the call. Only the
// stream of the copy fails; the other device works. If it is lost itself, it knows.
func TestLossOfPeer(t *testing.T) {
	fake := fakecuda.Open(t)
	l := load(t, fake.Path)
	const bytesOf = 4096
	works := func(d cuda.Device, from cuda.Device, there cuda.Ptr) {
		t.Helper()
		s, at, back := stream(t, d), alloc(t, d, bytesOf), hostMemory(t, d, bytesOf)
		err := errors.Join(s.(cuda.PeerCopier).CopyPeer(at, from, there, bytesOf), s.CopyOut(back, at), s.Sync())
		if err != nil || !bytes.Equal(back, bytes.Repeat([]byte("x"), bytesOf)) {
			t.Errorf("a copy from another device: %v", err)
		}
	}
	a, b := open(t, l, 0), open(t, l, 1)
	there, host, s := alloc(t, a, bytesOf), hostMemory(t, a, bytesOf), stream(t, a)
	copy(host, bytes.Repeat([]byte("x"), bytesOf))
	if err := errors.Join(s.CopyIn(there, host), s.Sync()); err != nil {
		t.Fatal(err)
	}
	works(b, a, there)
	fake.Fault("cuMemcpyPeerAsync@1=719") // the driver reports what is wrong with the other context
	broken, at := stream(t, b), alloc(t, b, bytesOf)
	err := errors.Join(broken.(cuda.PeerCopier).CopyPeer(at, a, there, bytesOf), broken.Sync())
	if err == nil || errors.Is(err, cuda.ErrDeviceLost) {
		t.Errorf("the call fails because of the other device: %v", err)
	}
	works(b, a, there)

	fake.Fault("exec:copy@1=214!")
	if err := errors.Join(s.CopyIn(there, host), s.Sync()); !errors.Is(err, cuda.ErrDeviceLost) {
		t.Fatal(err)
	}
	late := stream(t, b)
	err = late.(cuda.PeerCopier).CopyPeer(at, a, there, bytesOf)
	if err == nil || errors.Is(err, cuda.ErrDeviceLost) {
		t.Errorf("a copy from a device that is lost: %v", err)
	}
	back := hostMemory(t, b, bytesOf)
	if err := errors.Join(late.CopyOut(back, at), late.Sync()); err != nil {
		t.Errorf("the stream afterwards: %v", err)
	}

	fake.Do("revive")
	if err := a.(cuda.Reopener).Reopen(); err != nil {
		t.Fatal(err)
	}
	from := alloc(t, a, bytesOf)
	fake.Fault("cuMemcpyPeerAsync@1=719!")
	own := stream(t, b)
	err = errors.Join(own.(cuda.PeerCopier).CopyPeer(at, a, from, bytesOf), own.Sync())
	if !errors.Is(err, cuda.ErrDeviceLost) {
		t.Errorf("a copy during which the device itself is lost: %v", err)
	}
}
