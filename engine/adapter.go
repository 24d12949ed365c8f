package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/zeebo/xxh3"

	"troupe/core/hbm"
	"troupe/core/lora"
	"troupe/cuda"
)

// Adapter is a LoRA adapter on a device. It is immutable: an adapter that is loaded again is a new
// Adapter.
type Adapter struct {
	Layout *lora.Layout
	Pages  []cuda.Ptr // 2 MiB each: the adapter's address space, in order
	Rank   int
	Scale  float32 // factor of the adapter's contribution
}

// AdapterFile describes an adapter's folder after it was checked against its base model.
type AdapterFile struct {
	Path   string // of the folder
	Base   string // name of the base model in the adapter's configuration
	Layout *lora.Layout
	Rank   int
	Scale  float32
	// Read fills into, of Layout.Bytes bytes, with the adapter's address space.
	Read func(ctx context.Context, into []byte) error
}

// AdapterLoader is a Loader of models that support adapters.
type AdapterLoader interface {
	Loader
	// OpenAdapter reads only headers and checks them against the base model's folder.
	OpenAdapter(model, adapter string, device cuda.Info) (AdapterFile, error)
}

// Stage reads an adapter into page-locked host memory, from which Load can copy it.
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

// Load copies the content of an adapter into pages. No step may use these pages during the copy. If
// there are checksums, each page of the content is verified before it is copied; a content that is
// damaged is a *DamagedImage.
func (a *AdapterMemory) Load(
	ctx context.Context,
	file AdapterFile,
	content []byte,
	sums []uint64,
	pages []uint32,
) (*Adapter, error) {
	if len(pages) != file.Layout.Pages() {
		return nil, fmt.Errorf("got %d pages for an adapter of %d", len(pages), file.Layout.Pages())
	}
	adapter := &Adapter{Layout: file.Layout, Rank: file.Rank, Scale: file.Scale, Pages: make([]cuda.Ptr, len(pages))}
	if err := a.check(pages); err != nil {
		return nil, err
	}
	for i, page := range pages {
		adapter.Pages[i] = a.at(page)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stream == nil {
		return nil, errors.New("adapter memory is closed")
	}
	c := &pageCopy{stream: a.stream}
	if locks, err := cuda.As[cuda.HostLocks](a.device); err != nil || !locks.Locked(content) {
		if c.buffer, err = a.device.AllocHost(hbm.PageBytes); err != nil {
			return nil, fmt.Errorf("host memory to copy an adapter: %w", err)
		}
	}
	err := c.run(ctx, file, content, sums, adapter.Pages)
	if err = errors.Join(err, a.stream.Sync(), c.close()); err != nil {
		return nil, err
	}
	return adapter, nil
}

// pageCopy copies the content of an adapter page by page.
type pageCopy struct {
	stream cuda.Stream
	buffer cuda.HostMemory // of a page, for content that the device cannot copy; nil: it can
}

func (c *pageCopy) run(ctx context.Context, file AdapterFile, content []byte, sums []uint64, to []cuda.Ptr) error {
	left := content[:file.Layout.Bytes()]
	for i, to := range to {
		if err := ctx.Err(); err != nil {
			return err
		}
		page := left[:min(len(left), hbm.PageBytes)]
		if sums != nil && xxh3.Hash(page) != sums[i] {
			return &DamagedImage{file.Path, int64(i) * hbm.PageBytes}
		}
		if err := c.copy(to, page); err != nil {
			return err
		}
		left = left[len(page):]
	}
	return nil
}

func (c *pageCopy) copy(to cuda.Ptr, page []byte) error {
	if c.buffer == nil {
		return c.stream.CopyIn(to, page)
	}
	through := c.buffer.Bytes()[:copy(c.buffer.Bytes(), page)]
	return errors.Join(c.stream.CopyIn(to, through), c.stream.Sync())
}

func (c *pageCopy) close() error {
	if c.buffer == nil {
		return nil
	}
	return c.buffer.Free()
}

// Close waits for the copy in progress and frees the memory. No step may use it afterwards.
func (a *AdapterMemory) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	stream := a.stream
	a.stream = nil
	return errors.Join(stream.Close(), a.free())
}
