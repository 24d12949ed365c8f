package cudatest

import (
	"bytes"
	"errors"
	"testing"

	"troupe/cuda"
)

// pattern fills memory with a position-dependent pattern.
func pattern(b []byte, seed int) {
	for i := range b {
		b[i] = byte(seed + i*7 + i>>8)
	}
}

// virtualMemory: an array grows and shrinks in place, copies may cross adjacent mappings but not
// their end, and content belongs to the memory, not to the address.
func virtualMemory(t *testing.T, d cuda.Device) {
	v := capability[cuda.VirtualMemory](t, d)
	free, _ := d.Memory()
	g := v.Granularity()
	base, err := v.Reserve(4 * g)
	skipWithout(t, err)
	if err != nil {
		t.Fatal(err)
	}
	var pages []cuda.Physical
	for i := range cuda.Ptr(3) {
		m := must[cuda.Physical](t)(v.CreatePhysical(g))
		pages = append(pages, m)
		if i < 2 {
			noError(t, v.Map(base+i*cuda.Ptr(g), m))
		}
	}
	if left, _ := d.Memory(); left > free-3*g {
		t.Errorf("%d bytes free after three pages of %d, %d before", left, g, free)
	}
	s, in, out := stream(t, d), hostMemory(t, d, 4096), hostMemory(t, d, 4096)
	pattern(in, 1)
	edge := base.Offset(g - 2048)
	noError(t, s.CopyIn(edge, in), s.CopyOut(out, edge), s.Sync())
	if !bytes.Equal(in, out) {
		t.Error("a copy across two mappings differs")
	}
	for what, at := range map[string]cuda.Ptr{
		"past the last mapping": base.Offset(2*g - 2048), "where nothing is mapped": base.Offset(3 * g),
	} {
		isFault(t, what, stream(t, d), func(s cuda.Stream) error { return s.CopyIn(at, in) })
	}
	// The second page moves to the end, and the third takes its address.
	noError(t, v.Unmap(base.Offset(g), g), v.Map(base.Offset(3*g), pages[1]))
	isFault(t, "across a hole", stream(t, d), func(s cuda.Stream) error { return s.CopyIn(edge, in) })
	noError(t, v.Map(base.Offset(g), pages[2]))
	clear(out)
	noError(t, s.CopyOut(out[:2048], base.Offset(3*g)), s.Sync())
	if !bytes.Equal(out[:2048], in[2048:]) {
		t.Error("the content did not move with its memory")
	}
	refusals(t, v, base, pages[0])
	// Released memory is freed when it is unmapped.
	before, _ := d.Memory()
	noError(t, pages[0].Release(), pages[1].Release(), pages[2].Release())
	if left, _ := d.Memory(); left > before {
		t.Errorf("mapped memory was freed: %d bytes free, %d before", left, before)
	}
	noError(t, s.CopyIn(base, in), s.Sync(), v.Unmap(base, 2*g), v.Unmap(base.Offset(3*g), g), v.Unreserve(base))
	if left, _ := d.Memory(); d.Info().Simulated && left != free {
		t.Errorf("%d bytes free at the end, %d at the start", left, free)
	}
}

func refusals(t *testing.T, v cuda.VirtualMemory, base cuda.Ptr, mapped cuda.Physical) {
	t.Helper()
	g := v.Granularity()
	other, err := v.Reserve(g)
	noError(t, err)
	for what, err := range map[string]error{
		"mapped over a mapping":        v.Map(base, mapped),
		"mapped outside a reservation": v.Map(base.Offset(4*g), mapped),
		"unreserved mapped addresses":  v.Unreserve(base),
		"unreserved half a range":      v.Unreserve(base.Offset(g)),
		"unmapped unmapped addresses":  v.Unmap(other, g),
		"unmapped half a mapping":      v.Unmap(base, g/2),
	} {
		if err == nil {
			t.Error(what)
		}
	}
	if _, err := v.CreatePhysical(1 << 50); !errors.Is(err, cuda.ErrOutOfMemory) {
		t.Errorf("more memory than available: %v", err)
	}
	spare, err := v.CreatePhysical(g)
	noError(t, err)
	noError(t, v.Map(other, spare), v.Unmap(other, g), spare.Release(), v.Unreserve(other))
	if spare.Release() == nil {
		t.Error("released twice")
	}
	if v.Map(base.Offset(2*g), spare) == nil {
		t.Error("mapped released memory")
	}
}

func noError(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// hostMemory returns host memory that is freed with the device.
func hostMemory(t *testing.T, d cuda.Device, n int) []byte {
	t.Helper()
	return must[cuda.HostMemory](t)(d.AllocHost(int64(n))).Bytes()
}

func isFault(t *testing.T, what string, s cuda.Stream, give func(cuda.Stream) error) {
	t.Helper()
	if fault := (*cuda.Fault)(nil); !errors.As(errors.Join(give(s), s.Sync()), &fault) {
		t.Errorf("%s: no fault", what)
	}
	_ = s.Close()
}
