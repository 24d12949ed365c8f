package llama

import (
	"bytes"
	"testing"
)

// TestClearGaps checks that the bytes between tensors are cleared, and no others, also where a gap reaches
// over the end of a part.
func TestClearGaps(t *testing.T) {
	memory := bytes.Repeat([]byte{1}, 40)
	gaps := []gap{{3, 5}, {8, 12}, {19, 20}, {28, 40}}
	left := gaps
	for at := 0; at < len(memory); at += 10 {
		left = clearGaps(memory[at:at+10], int64(at), left)
	}
	want := bytes.Repeat([]byte{1}, 40)
	for _, g := range gaps {
		clear(want[g.begin:g.end])
	}
	if !bytes.Equal(memory, want) || len(left) != 0 {
		t.Errorf("%v, want %v; %v left", memory, want, left)
	}
}
