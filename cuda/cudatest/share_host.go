package cudatest

import (
	"bytes"
	"errors"
	"testing"

	"troupe/cuda"
)

// SharedHost checks that a stream of a device copies host memory that another device has allocated
// while the memory is shared, and not before or after.
func SharedHost(t *testing.T, owner, other cuda.Device) {
	sharer, err := cuda.As[cuda.HostSharer](other)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	const size = 1 << 16
	memory, err := owner.AllocHost(size)
	if err != nil {
		t.Fatal(err)
	}
	for i := range memory.Bytes() {
		memory.Bytes()[i] = byte(i * 7)
	}
	there, err := other.Alloc(size)
	if err != nil {
		t.Fatal(err)
	}
	copyIn := func() error {
		s := stream(t, other)
		err := s.CopyIn(there, memory.Bytes())
		return errors.Join(err, s.Sync())
	}
	if copyIn() == nil {
		t.Error("memory was copied before it was shared")
	}
	release, err := sharer.ShareHost(memory)
	if err != nil {
		t.Fatal(err)
	}
	locks, err := cuda.As[cuda.HostLocks](other)
	if err != nil || !locks.Locked(memory.Bytes()) {
		t.Errorf("shared memory is not page-locked: %v", err)
	}
	if err := copyIn(); err != nil {
		t.Error(err)
	}
	back, err := other.AllocHost(size)
	if err != nil {
		t.Fatal(err)
	}
	s := stream(t, other)
	if err := errors.Join(s.CopyOut(back.Bytes(), there), s.Sync()); err != nil || !bytes.Equal(back.Bytes(),
		memory.Bytes()) {
		t.Errorf("other bytes were copied: %v", err)
	}
	release()
	if copyIn() == nil {
		t.Error("memory was copied after its release")
	}
	if err := errors.Join(memory.Free(), back.Free(), other.Free(there)); err != nil {
		t.Error(err)
	}
}
