package llama

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"troupe/cuda"
	"troupe/cuda/kernels"
)

// chunkElements is the number of elements that are read, converted and copied at once.
const chunkElements = 1 << 20

// upload copies tensors to the device through pinned memory: while one chunk is copied, the next is
// read. It reads them in file order.
func upload(
	ctx context.Context, device cuda.Device, base cuda.Ptr, tensors []placedTensor, from *weightReader,
) (err error) {
	stream, err := device.NewStream("load")
	if err != nil {
		return err
	}
	u := &uploader{stream: stream, raw: make([]byte, 4*chunkElements)}
	defer func() { err = errors.Join(err, u.close()) }()
	for i := range u.staging {
		if u.staging[i].memory, err = device.AllocHost(4 * chunkElements); err != nil {
			return err
		}
	}
	for _, t := range slices.SortedFunc(slices.Values(tensors), byFileOffset) {
		if err := u.uploadTensor(ctx, t, base.Offset(t.offset), from); err != nil {
			return fmt.Errorf("tensor %s: %w", t.name, err)
		}
	}
	return stream.Sync()
}

type uploader struct {
	stream  cuda.Stream
	raw     []byte
	staging [2]struct {
		memory cuda.HostMemory
		copied cuda.Event // last copy from memory
	}
	next int
}

func (u *uploader) close() error {
	errs := []error{u.stream.Close()}
	for _, s := range u.staging {
		if s.memory != nil {
			errs = append(errs, s.memory.Free())
		}
	}
	return errors.Join(errs...)
}

func (u *uploader) uploadTensor(ctx context.Context, t placedTensor, to cuda.Ptr, from *weightReader) error {
	if err := from.seek(t.source.Place()); err != nil {
		return err
	}
	for left := t.source.Elements(); left > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(left, chunkElements)
		if err := u.chunk(from, t, to, n); err != nil {
			return err
		}
		left -= n
		to = to.Offset(n * t.dtype.Bytes())
	}
	return nil
}

// chunk reads n elements, converts them and starts their copy.
func (u *uploader) chunk(r io.Reader, t placedTensor, to cuda.Ptr, n int64) error {
	raw := u.raw[:n*t.source.DType.Bytes()]
	if _, err := io.ReadFull(r, raw); err != nil {
		return err
	}
	s := &u.staging[u.next]
	u.next = 1 - u.next
	if s.copied != nil {
		if err := s.copied.Sync(); err != nil {
			return err
		}
	}
	out := s.memory.Bytes()[:n*t.dtype.Bytes()]
	if err := convert(out, t.dtype, raw, t.source.DType); err != nil {
		return err
	}
	if err := u.stream.CopyIn(to, out); err != nil {
		return err
	}
	var err error
	s.copied, err = u.stream.Record()
	return err
}

// convert converts little-endian elements to another type. The race detector does not instrument it:
// it would take most of the time of a load, and both buffers belong to the load alone.
//
//go:norace
//go:nocheckptr
func convert(out []byte, to cuda.DType, in []byte, from cuda.DType) error {
	if to == from {
		copy(out, in)
		return nil
	}
	if to != cuda.F32 {
		return fmt.Errorf("cannot convert %s weights to %s", from, to)
	}
	for i := 0; i < len(in); i += 2 {
		h := binary.LittleEndian.Uint16(in[i:])
		bits := uint32(h) << 16 // BF16 is the upper half of F32
		if from == cuda.F16 {
			bits = math.Float32bits(kernels.F16ToF32(h))
		}
		binary.LittleEndian.PutUint32(out[2*i:], bits)
	}
	return nil
}
