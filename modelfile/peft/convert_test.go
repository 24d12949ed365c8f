package peft

import (
	"encoding/binary"
	"testing"

	"troupe/cuda"
)

// TestRounding: values round to nearest, ties to even, and NaN stays NaN.
func TestRounding(t *testing.T) {
	for _, tc := range []struct {
		from uint32
		to   cuda.DType
		want uint16
	}{
		{0x3f808000, cuda.BF16, 0x3f80}, {0x3f818000, cuda.BF16, 0x3f82}, {0x3f808001, cuda.BF16, 0x3f81},
		{0x3f807fff, cuda.BF16, 0x3f80},
		{0x7f800001, cuda.BF16, 0x7fc0}, {0x7f7fffff, cuda.BF16, 0x7f80}, {0xff800000, cuda.BF16, 0xff80},
		{0x3f801000, cuda.F16, 0x3c00}, {0x3f803000, cuda.F16, 0x3c02}, {0x3f801001, cuda.F16, 0x3c01},
		{0x47800000, cuda.F16, 0x7c00},
	} {
		var out [2]byte
		convert(out[:], tc.to, binary.LittleEndian.AppendUint32(nil, tc.from), cuda.F32)
		if got := binary.LittleEndian.Uint16(out[:]); got != tc.want {
			t.Errorf("%#x to %v: got %#x, want %#x", tc.from, tc.to, got, tc.want)
		}
	}
}
