package llama

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"unsafe"

	"troupe/cuda"
	"troupe/cuda/kernels"
	"troupe/engine"
)

const (
	// chunkElements is the number of elements that are read, converted and copied at once.
	chunkElements = 1 << 20
	// uploadBytes is the maximum size of a chunk on a device.
	uploadBytes = 4 * chunkElements
)

// upload copies tensors to the device through pinned memory: while one chunk is copied, the next is
// converted and a later one is read. It reads them in file order. With an image, the tensors are put
// into its memory, and are copied from there. It returns the checksums of the image.
func upload(
	ctx context.Context, device cuda.Device, base cuda.Ptr, tensors []placedTensor, from *weightReader, image []byte,
) (sums []engine.ImageSum, err error) {
	u, err := newUploader(device)
	if err != nil {
		return nil, err
	}
	if image != nil {
		last := tensors[len(tensors)-1]
		u.image, u.direct, u.sums = image, locked(device, image), newPartSums(image, last.end(last.offset))
	}
	u.raw = make([]byte, uploadBytes)
	defer func() { err = errors.Join(err, u.close()) }()
	for _, t := range slices.SortedFunc(slices.Values(tensors), byFileOffset) {
		if err := u.uploadTensor(ctx, t, base, from); err != nil {
			return nil, fmt.Errorf("tensor %s: %w", t.name, err)
		}
	}
	if image != nil {
		sums = u.sums.sums
	}
	return sums, u.stream.Sync()
}

type uploader struct {
	stream cuda.Stream
	device cuda.Device
	raw    []byte
	image  []byte // nil: none
	direct bool   // the device copies the memory of the image without staging
	sums   *partSums

	staging [2]struct {
		memory cuda.HostMemory // nil until it is needed
		copied cuda.Event      // last copy from memory
	}
	next int
}

func newUploader(device cuda.Device) (*uploader, error) {
	stream, err := device.NewStream("load")
	return &uploader{stream: stream, device: device}, err
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

func (u *uploader) uploadTensor(ctx context.Context, t placedTensor, base cuda.Ptr, from *weightReader) error {
	if err := from.seek(t.source.Place()); err != nil {
		return err
	}
	at := t.offset
	for left := t.elements(); left > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(left, chunkElements)
		if err := u.chunk(from, t, base, at, n); err != nil {
			return err
		}
		left -= n
		at += n * t.dtype.Bytes()
	}
	if u.image != nil {
		end := t.end(t.offset)
		clear(u.image[at:end])
		u.sums.wrote(at, end-at)
	}
	return nil
}

// chunk reads n elements, converts them and starts their copy to an offset of the allocation.
func (u *uploader) chunk(r io.Reader, t placedTensor, base cuda.Ptr, at, n int64) error {
	bytes := n * t.dtype.Bytes()
	if u.image == nil {
		out, err := u.stagingMemory(bytes)
		if err == nil {
			err = u.fill(r, t, out, n)
		}
		if err != nil {
			return err
		}
		return u.copyStaged(base.Offset(at), out)
	}
	out := u.image[at:][:bytes]
	if err := u.fill(r, t, out, n); err != nil {
		return err
	}
	u.sums.wrote(at, bytes)
	if u.direct {
		return u.stream.CopyIn(base.Offset(at), out)
	}
	return u.stage(base.Offset(at), out)
}

// fill reads n elements and converts them into out.
func (u *uploader) fill(r io.Reader, t placedTensor, out []byte, n int64) error {
	if t.dtype == t.source.DType {
		_, err := io.ReadFull(r, out)
		return err
	}
	raw := u.raw[:n*t.source.DType.Bytes()]
	if _, err := io.ReadFull(r, raw); err != nil {
		return err
	}
	return convert(out, t.dtype, raw, t.source.DType)
}

// stage starts a copy of memory that the device cannot copy directly.
func (u *uploader) stage(to cuda.Ptr, b []byte) error {
	out, err := u.stagingMemory(int64(len(b)))
	if err != nil {
		return err
	}
	copy(out, b)
	return u.copyStaged(to, out)
}

// stagingMemory waits for pinned memory whose copy is done. copyStaged starts the next copy from it.
func (u *uploader) stagingMemory(bytes int64) (_ []byte, err error) {
	s := &u.staging[u.next]
	if s.memory == nil {
		if s.memory, err = u.device.AllocHost(uploadBytes); err != nil {
			return nil, err
		}
	}
	if s.copied != nil {
		if err := s.copied.Sync(); err != nil {
			return nil, err
		}
	}
	return s.memory.Bytes()[:bytes], nil
}

func (u *uploader) copyStaged(to cuda.Ptr, out []byte) error {
	if err := u.stream.CopyIn(to, out); err != nil {
		return err
	}
	var err error
	u.staging[u.next].copied, err = u.stream.Record()
	u.next = 1 - u.next
	return err
}

// fetch starts a copy from the device, and returns an event that is done when to has its bytes.
func (u *uploader) fetch(to []byte, from cuda.Ptr, direct bool) (cuda.Event, error) {
	if direct {
		if err := u.stream.CopyOut(to, from); err != nil {
			return nil, err
		}
		return u.stream.Record()
	}
	staged, err := u.stagingMemory(int64(len(to)))
	if err == nil {
		err = u.stream.CopyOut(staged, from)
	}
	if err != nil {
		return nil, err
	}
	done, err := u.stream.Record()
	if err != nil {
		return nil, err
	}
	if err := done.Sync(); err != nil {
		return nil, err
	}
	copy(to, staged)
	return done, nil
}

// convert converts elements to another type. The race detector does not instrument it: it would take
// much of the time of a load, and both buffers belong to the load alone.
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
	n := len(in) / 2
	if n > 0 {
		kernels.Widen(unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(out[:4*n]))), n),
			unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(in))), n), from)
	}
	return nil
}
