package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"troupe/core/hbm"
	"troupe/core/lora"
	"troupe/cuda"
)

// Adapter is a LoRA on a device, as sequences refer to it. It never changes: one that was loaded again is another.
type Adapter struct {
	Layout *lora.Layout
	Pages  []cuda.Ptr // of 2 MiB: the adapter's address space, in order
	Rank   int
	Scale  float32 // of what it adds
}

// AdapterFile is an adapter in its folder, checked against its base model.
type AdapterFile struct {
	Base   string // the name of the base model, as whoever trained it put it
	Layout *lora.Layout
	Rank   int
	Scale  float32
	// Read fills the adapter's address space, Layout.Bytes of host memory.
	Read func(ctx context.Context, into []byte) error
}

// AdapterLoader is a Loader of models that take adapters.
type AdapterLoader interface {
	Loader
	// OpenAdapter reads no more than headers, and checks all that they tell against the base model's folder.
	OpenAdapter(model, adapter string, device cuda.Info) (AdapterFile, error)
}

// AdapterMemory is device memory for adapters, in pages that a lora.Pool gives out by number. Like a Holder it sits above
// whatever crashes. It is safe for concurrent use; copies run one by one, on a stream of their own, beside steps.
type AdapterMemory struct {
	device cuda.Device
	base   cuda.Ptr
	pages  int

	mu     sync.Mutex
	stream cuda.Stream // nil once closed
}

// NewAdapterMemory allocates so many pages.
func NewAdapterMemory(device cuda.Device, pages int) (*AdapterMemory, error) {
	stream, err := device.NewStream("adapters")
	if err != nil {
		return nil, err
	}
	base, err := device.Alloc(int64(pages) * hbm.PageBytes)
	if err != nil { // nothing is left behind
		return nil, errors.Join(fmt.Errorf("%d pages for adapters: %w", pages, err), stream.Close())
	}
	return &AdapterMemory{device: device, base: base, pages: pages, stream: stream}, nil
}

// PageNumbers are those of the pages, for a lora.Pool.
func (a *AdapterMemory) PageNumbers() []uint32 {
	numbers := make([]uint32, a.pages)
	for i := range numbers {
		numbers[i] = uint32(i)
	}
	return numbers
}

// Stage reads an adapter into page-locked host memory, whence it can be copied to a device again and again.
func (a *AdapterMemory) Stage(ctx context.Context, file AdapterFile) (cuda.HostMemory, error) {
	memory, err := a.device.AllocHost(file.Layout.Bytes())
	if err != nil {
		return nil, fmt.Errorf("host memory for an adapter of %d bytes: %w", file.Layout.Bytes(), err)
	}
	if err := file.Read(ctx, memory.Bytes()[:file.Layout.Bytes()]); err != nil {
		return nil, errors.Join(err, memory.Free())
	}
	return memory, nil
}

// Load copies a staged adapter into pages. Nothing may read or write them meanwhile.
func (a *AdapterMemory) Load(
	ctx context.Context,
	file AdapterFile,
	staged cuda.HostMemory,
	pages []uint32,
) (*Adapter, error) {
	if len(pages) != file.Layout.Pages() {
		return nil, fmt.Errorf("%d pages for an adapter of %d", len(pages), file.Layout.Pages())
	}
	adapter := &Adapter{Layout: file.Layout, Rank: file.Rank, Scale: file.Scale, Pages: make([]cuda.Ptr, len(pages))}
	for i, page := range pages {
		if int(page) >= a.pages {
			return nil, fmt.Errorf("page %d of %d", page, a.pages)
		}
		adapter.Pages[i] = a.base.Offset(int64(page) * hbm.PageBytes)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stream == nil {
		return nil, errors.New("the memory for adapters is closed")
	}
	left := staged.Bytes()[:file.Layout.Bytes()]
	for _, to := range adapter.Pages {
		if err := ctx.Err(); err != nil {
			return nil, errors.Join(err, a.stream.Sync())
		}
		n := min(len(left), hbm.PageBytes)
		if err := a.stream.CopyIn(to, left[:n]); err != nil {
			return nil, errors.Join(err, a.stream.Sync())
		}
		left = left[n:]
	}
	if err := a.stream.Sync(); err != nil {
		return nil, err
	}
	return adapter, nil
}

// Close waits for the copy that is under way and gives the memory back. No step may use it any more.
func (a *AdapterMemory) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	stream := a.stream
	a.stream = nil
	return errors.Join(stream.Close(), a.device.Free(a.base))
}
