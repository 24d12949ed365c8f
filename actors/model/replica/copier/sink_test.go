package copier

import (
	"testing"

	"troupe/actors/supervise"
)

// TestSinkWritesOnlyExpectedChunks checks that a fetch writes no chunk beyond its last one, and none after it
// has ended: the memory may have other blocks by then.
func TestSinkWritesOnlyExpectedChunks(t *testing.T) {
	var written []uint32
	s := &sink{runtime: supervise.System, chunks: 2, write: func(index uint32, _ []byte) error {
		written = append(written, index)
		return nil
	}}
	if err := s.put(2, make([]byte, 8)); err == nil {
		t.Error("chunk 2 of 2 was accepted")
	}
	if err := s.put(1, make([]byte, 8)); err != nil {
		t.Error(err)
	}
	s.close()
	if err := s.put(0, make([]byte, 8)); err == nil {
		t.Error("a chunk was accepted after the end")
	}
	if len(written) != 1 || s.bytes != 8 {
		t.Errorf("chunks %v were written, with %d bytes, want chunk 1 of 8 bytes", written, s.bytes)
	}
}
