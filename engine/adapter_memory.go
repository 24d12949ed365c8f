package engine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"troupe/core/hbm"
	"troupe/cuda"
)

// AdapterMemory is device memory for adapters. A lora.Pool allocates its pages by number. Like a
// residency.Store it survives the crash of an actor. It is safe for concurrent use. Copies run one
// at a time on their own stream, concurrently with steps.
//
// If the device supports it, pages are mapped one by one into a range of addresses, so that the memory
// grows and shrinks while adapters are in it. A page is freed only after it was given back.
type AdapterMemory struct {
	device cuda.Device
	vm     cuda.VirtualMemory // nil: one allocation of fixed size
	base   cuda.Ptr
	most   int // pages that have addresses

	mu     sync.Mutex
	stream cuda.Stream // nil after Close

	resizing sync.Mutex // held during a resize
	pageMu   sync.Mutex
	pages    map[uint32]cuda.Physical // pages with memory; the memory of each is nil if the size is fixed
	given    map[uint32]bool          // pages that were given back and have memory
}

// NewAdapterMemory allocates the given number of pages. It can grow to most pages, if the device
// supports that.
func NewAdapterMemory(device cuda.Device, pages, most int) (*AdapterMemory, error) {
	stream, err := device.NewStream("adapters")
	if err != nil {
		return nil, err
	}
	a := &AdapterMemory{
		device: device, stream: stream, most: max(pages, most), pages: make(map[uint32]cuda.Physical),
		given: make(map[uint32]bool),
	}
	if err := a.allocate(pages); err != nil { // release everything on failure
		return nil, errors.Join(fmt.Errorf("allocating %d pages for adapters: %w", pages, err), stream.Close())
	}
	return a, nil
}

// allocate allocates the first pages. If it fails, it frees what it allocated.
func (a *AdapterMemory) allocate(pages int) error {
	vm, err := cuda.As[cuda.VirtualMemory](a.device)
	if err == nil && hbm.PageBytes%vm.Granularity() == 0 {
		a.base, err = vm.Reserve(int64(a.most) * hbm.PageBytes)
	} else {
		err = errors.ErrUnsupported
	}
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		if a.base, err = a.device.Alloc(int64(pages) * hbm.PageBytes); err != nil {
			return err
		}
		for page := range uint32(pages) {
			a.pages[page] = nil
		}
		a.most = pages
		return nil
	case err != nil:
		return err
	}
	a.vm = vm
	if err := a.grow(pages); err != nil {
		return errors.Join(err, vm.Unreserve(a.base))
	}
	return nil
}

// at returns the address of a page.
func (a *AdapterMemory) at(page uint32) cuda.Ptr { return a.base.Offset(int64(page) * hbm.PageBytes) }

// PageNumbers returns the numbers of all pages that were not given back, for a lora.Pool.
func (a *AdapterMemory) PageNumbers() (numbers []uint32) {
	a.pageMu.Lock()
	defer a.pageMu.Unlock()
	for _, page := range slices.Sorted(maps.Keys(a.pages)) {
		if !a.given[page] {
			numbers = append(numbers, page)
		}
	}
	return numbers
}

// Allocated returns the number of pages that have memory.
func (a *AdapterMemory) Allocated() int {
	a.pageMu.Lock()
	defer a.pageMu.Unlock()
	return len(a.pages)
}

// check refuses pages that are not in PageNumbers.
func (a *AdapterMemory) check(pages []uint32) error {
	a.pageMu.Lock()
	defer a.pageMu.Unlock()
	for _, page := range pages {
		if _, ok := a.pages[page]; !ok || a.given[page] {
			return fmt.Errorf("page %d is not one of %d pages", page, len(a.pages)-len(a.given))
		}
	}
	return nil
}

// GiveBack gives back pages that no step and no copy uses. They can be freed from now on.
func (a *AdapterMemory) GiveBack(pages []uint32) {
	a.pageMu.Lock()
	defer a.pageMu.Unlock()
	for _, page := range pages {
		if _, ok := a.pages[page]; ok {
			a.given[page] = true
		}
	}
}

// TakeBack takes back the pages that were given back and are not freed yet.
func (a *AdapterMemory) TakeBack() {
	a.pageMu.Lock()
	defer a.pageMu.Unlock()
	clear(a.given)
}

// Resize changes the number of pages that have memory. It frees only pages that were given back, so
// there may be more in the end. If it cannot grow, it changes nothing. If the size is fixed, the error
// is errors.ErrUnsupported.
func (a *AdapterMemory) Resize(pages int) error {
	a.resizing.Lock()
	defer a.resizing.Unlock()
	have := a.Allocated()
	switch {
	case a.vm == nil:
		return fmt.Errorf("memory for adapters has a fixed size: %w", errors.ErrUnsupported)
	case pages > a.most:
		return fmt.Errorf("cannot have %d pages for adapters, at most %d", pages, a.most)
	case pages > have:
		return a.grow(pages - have)
	}
	return a.shrink(have - pages)
}

// grow adds n pages. If it fails, it frees what it allocated.
func (a *AdapterMemory) grow(n int) error {
	added := make(map[uint32]cuda.Physical)
	for page := uint32(0); len(added) < n; page++ {
		a.pageMu.Lock()
		_, taken := a.pages[page]
		a.pageMu.Unlock()
		if taken {
			continue
		}
		memory, err := a.vm.CreatePhysical(hbm.PageBytes)
		if err == nil {
			if err = a.vm.Map(a.at(page), memory); err != nil {
				err = errors.Join(err, memory.Release())
			}
		}
		if err != nil {
			return errors.Join(err, a.unmap(added))
		}
		added[page] = memory
	}
	a.pageMu.Lock()
	defer a.pageMu.Unlock()
	maps.Copy(a.pages, added)
	return nil
}

// shrink frees up to n of the pages that were given back.
func (a *AdapterMemory) shrink(n int) error {
	a.pageMu.Lock()
	freed := make(map[uint32]cuda.Physical)
	for _, page := range slices.Backward(slices.Sorted(maps.Keys(a.given))) {
		if len(freed) < n {
			freed[page] = a.pages[page]
			delete(a.pages, page)
			delete(a.given, page)
		}
	}
	a.pageMu.Unlock()
	return a.unmap(freed)
}

// unmap frees the memory of pages that are not in use.
func (a *AdapterMemory) unmap(pages map[uint32]cuda.Physical) (err error) {
	for _, page := range slices.Sorted(maps.Keys(pages)) {
		err = errors.Join(err, a.vm.Unmap(a.at(page), hbm.PageBytes), pages[page].Release())
	}
	return err
}

// free frees all memory.
func (a *AdapterMemory) free() error {
	if a.vm == nil {
		return a.device.Free(a.base)
	}
	a.resizing.Lock()
	defer a.resizing.Unlock()
	a.pageMu.Lock()
	pages := a.pages
	a.pages, a.given = make(map[uint32]cuda.Physical), make(map[uint32]bool)
	a.pageMu.Unlock()
	return errors.Join(a.unmap(pages), a.vm.Unreserve(a.base))
}
