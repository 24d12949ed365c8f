package llama

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/zeebo/xxh3"

	"troupe/cuda"
	"troupe/engine"
	"troupe/engine/directio"
	"troupe/modelfile"
)

var _ engine.ImageLoader = Loader{}

// imageWorkers bounds the goroutines that verify an image while it is copied. A core verifies about as
// many bytes as a link to a GPU copies.
const imageWorkers = 4

// LoadImage implements engine.ImageLoader.
func (f Loader) LoadImage(ctx context.Context, device cuda.Device, image *engine.Image, memory []byte,
	from engine.ImageReader) (engine.Weights, error) {
	c, err := ReadConfig(modelfile.InMemory(image.Path, image.Files), image.Path)
	if err != nil {
		return nil, err
	}
	matrices, err := matricesOf(image.Info)
	if err != nil {
		return nil, err
	}
	tensors, size := place(c, matrices)
	if from == nil && memory == nil || memory != nil && int64(len(memory)) < size {
		return nil, fmt.Errorf("%d bytes of memory for an image of %s", len(memory), image.Path)
	}
	if size != image.Info.WeightBytes || !sameParts(image.Sums, partsOf(size)) || !image.Fits(device.Info()) {
		return nil, fmt.Errorf("the image of %s is not one for %s", image.Path, device.Info().Name)
	}
	base, err := device.Alloc(size)
	if err != nil {
		return nil, fmt.Errorf("weights of %s: %w", image.Path, err)
	}
	if err := copyImage(ctx, device, base, image, memory, from); err != nil {
		_ = device.Free(base) // err is the error to return
		return nil, err
	}
	m := inspectedModel{Config: c, tensors: tensors, info: image.InfoOn(device.Info())}
	w := f.weights(device, m, base, image.Digests, image.Files)
	w.path = image.Path
	w.setSums(image.Sums)
	return w, nil
}

// matricesOf returns the type of the matrices of an image.
func matricesOf(info engine.ModelInfo) (cuda.DType, error) {
	for _, t := range []cuda.DType{cuda.F32, cuda.F16, cuda.BF16} {
		if info.WeightLayout == weightLayout(t) {
			return t, nil
		}
	}
	return 0, fmt.Errorf("no model of the Llama family has the layout %q", info.WeightLayout)
}

// place returns the tensors of a model without their files, and the size of their memory.
func place(c Config, matrices cuda.DType) (all []placedTensor, size int64) {
	for p := range layout(c, matrices) {
		p.offset, size = size, p.end(size)
		all = append(all, p)
	}
	return all, size
}

// copyImage copies an image to device memory. Workers read or verify parts while others are copied.
func copyImage(
	ctx context.Context, device cuda.Device, base cuda.Ptr, image *engine.Image, memory []byte, from engine.ImageReader,
) (err error) {
	u, err := newUploader(device)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, u.close()) }()
	direct := memory != nil && locked(device, memory)
	var (
		next    atomic.Int64
		workers sync.WaitGroup
		mu      sync.Mutex // guards u and failed
		failed  error
	)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	work := func() {
		var buffer []byte // of a part that no memory keeps
		if memory == nil {
			buffer = directio.Buffer(engine.ImagePartBytes)
		}
		for {
			i := int(next.Add(1)) - 1
			if i >= len(image.Sums) {
				return
			}
			s := image.Sums[i]
			b := buffer
			if memory != nil {
				b = memory[s.Offset:]
			}
			b = b[:s.Bytes:s.Bytes]
			copied, err := copyPart(ctx, from, i, device, base.Offset(s.Offset), b, memory != nil)
			if !copied && err == nil {
				err = partOf(ctx, image, i, b, from)
			}
			mu.Lock()
			switch {
			case failed != nil:
			case err != nil:
				failed = err
				stop()
			case ctx.Err() != nil:
				failed = ctx.Err()
			case copied:
			case direct:
				failed = u.stream.CopyIn(base.Offset(s.Offset), b)
			default:
				failed = u.stage(base.Offset(s.Offset), b)
			}
			ended := failed != nil
			mu.Unlock()
			if ended {
				return
			}
		}
	}
	for range min(imageWorkers, max(2, runtime.GOMAXPROCS(0))) {
		workers.Go(work)
	}
	workers.Wait()
	if failed != nil {
		return failed
	}
	return u.stream.Sync()
}

// copyPart copies a part directly from a reader to the device, if it can, and to b if that is kept.
func copyPart(ctx context.Context, from engine.ImageReader, i int, device cuda.Device, at cuda.Ptr, b []byte,
	keep bool) (bool, error) {
	copier, ok := from.(engine.PartCopier)
	if !ok {
		return false, nil
	}
	if !keep {
		b = nil
	}
	return copier.CopyPart(ctx, i, device, at, b)
}

// partOf puts a part of an image into b, or verifies that it is there.
func partOf(ctx context.Context, image *engine.Image, i int, b []byte, from engine.ImageReader) error {
	if from != nil {
		return from.ReadPart(ctx, i, b)
	}
	if xxh3.Hash(b) != image.Sums[i].Sum {
		return &engine.DamagedImage{Path: image.Path, Offset: image.Sums[i].Offset}
	}
	return nil
}

// locked reports whether streams of a device copy host memory directly.
func locked(device cuda.Device, memory []byte) bool {
	locks, err := cuda.As[cuda.HostLocks](device)
	return err == nil && locks.Locked(memory)
}

// CopyToImage implements engine.ImageLoader.
func (f Loader) CopyToImage(ctx context.Context, weights engine.Weights, memory []byte) (_ *engine.Image, err error) {
	w, ok := weights.(*Weights)
	if !ok || int64(len(memory)) < w.info.WeightBytes {
		return nil, fmt.Errorf("%d bytes for an image of %T", len(memory), weights)
	}
	u, err := newUploader(w.device)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, u.close()) }()
	image := w.image()
	direct := locked(w.device, memory)
	gaps := w.gaps()
	image.Sums = partsOf(w.info.WeightBytes)
	type copied struct {
		*engine.ImageSum
		done cuda.Event
	}
	var queued []copied
	sum := func(c copied) error {
		if err := c.done.Sync(); err != nil {
			return err
		}
		b := memory[c.Offset:][:c.Bytes]
		gaps = clearGaps(b, c.Offset, gaps)
		c.Sum = xxh3.Hash(b)
		return nil
	}
	for i := range image.Sums {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		c := copied{ImageSum: &image.Sums[i]}
		if c.done, err = u.fetch(memory[c.Offset:][:c.Bytes], w.base.Offset(c.Offset), direct); err != nil {
			return nil, err
		}
		if queued = append(queued, c); len(queued) > 2 {
			if err := sum(queued[0]); err != nil {
				return nil, err
			}
			queued = queued[1:]
		}
	}
	for _, c := range queued {
		if err := sum(c); err != nil {
			return nil, err
		}
	}
	w.setSums(image.Sums)
	return image, nil
}

// image returns an image of the weights without checksums.
func (w *Weights) image() *engine.Image {
	return &engine.Image{
		Path: w.path, Digests: w.digest, Info: w.info, Weights: w.device.Info().Weights, Files: w.files,
	}
}
