package adapter_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"troupe/core/hbm"
	"troupe/core/hostcache"
	"troupe/core/lora"
	"troupe/engine"
	"troupe/engine/residency"
)

// fakeStore is a Store that detects two copies into one page, which a device would not, and records
// the content of each page.
type fakeStore struct {
	pages   int // numbers below are the pool's, except for those in given
	given   map[uint32]bool
	mu      sync.Mutex
	content map[uint32]string // page -> key with a complete copy
	writing map[uint32]string // page -> key being copied
	held    map[string]residency.ResidentAdapter
	wrong   []string
	loads   int
	tickets []string        // of the loads
	inHost  map[string]bool // adapters with a copy in host memory
	news    uint64

	// onCopy returns the result of a copy. If it is nil, copies succeed after a moment.
	onCopy func(key string) error
	// gone has the folders that have disappeared.
	gone map[string]bool
}

func newMemory(pages int) *fakeStore {
	return &fakeStore{
		pages: pages, content: map[uint32]string{}, writing: map[uint32]string{},
		held: map[string]residency.ResidentAdapter{}, gone: map[string]bool{}, inHost: map[string]bool{},
		given: map[uint32]bool{},
	}
}

func (m *fakeStore) MinPages() int { return 1 }

func (m *fakeStore) GiveBack(pages []uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, page := range pages {
		for key, h := range m.held {
			if slices.Contains(h.Pages, page) {
				m.wrong = append(m.wrong, fmt.Sprintf("page %d is given back with %s", page, key))
			}
		}
		m.given[page] = true
	}
}

func (m *fakeStore) TakeBack() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.given)
}

// fileOfPages returns the file of an adapter of the given size in pages.
func fileOfPages(pages int) engine.AdapterFile {
	l := &lora.Layout{}
	l.Add(lora.Matrix{}, int64(pages)*hbm.PageBytes-100)
	return engine.AdapterFile{Layout: l, Rank: 8}
}

// Inspect derives the size of an adapter from its path: "a/2" has two pages.
func (m *fakeStore) Inspect(_ hostcache.Name, path string) (engine.AdapterFile, error) {
	time.Sleep(5 * time.Millisecond)
	m.mu.Lock()
	defer m.mu.Unlock()
	var name string
	var pages int
	if _, err := fmt.Sscanf(path, "%1s/%d", &name, &pages); err != nil || m.gone[path] {
		return engine.AdapterFile{}, errors.New(path + ": no adapter_config.json")
	}
	return fileOfPages(pages), nil
}

func (m *fakeStore) Load(
	ctx context.Context, key string, file engine.AdapterFile, pages []uint32, ticket string,
) (lora.Tier, error) {
	m.mu.Lock()
	if h, ok := m.held[key]; ok && slices.Equal(h.Pages, pages) {
		m.mu.Unlock()
		return lora.GPU, nil
	}
	m.loads++
	m.tickets = append(m.tickets, ticket)
	for _, page := range pages {
		if other, ok := m.writing[page]; ok {
			m.wrong = append(m.wrong, fmt.Sprintf("%s and %s are copied to page %d", key, other, page))
		}
		for other, h := range m.held {
			if slices.Contains(h.Pages, page) {
				m.wrong = append(m.wrong, fmt.Sprintf("%s is copied to page %d, which %s is in", key, page, other))
			}
		}
		delete(m.content, page)
		m.writing[page] = key
	}
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, page := range pages {
			delete(m.writing, page)
		}
	}()
	if err := m.copy(ctx, key); err != nil {
		return lora.Disk, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, page := range pages {
		m.content[page] = key
	}
	m.held[key] = residency.ResidentAdapter{Key: key, File: file, Pages: pages}
	if ticket != "" {
		return lora.DRAM, nil
	}
	return lora.Disk, nil
}

func (m *fakeStore) Layout() string { return "test" }

func (m *fakeStore) InHost(name hostcache.Name) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.inHost[name.Adapter]
}

func (m *fakeStore) HostNews() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.news
}

// loaded returns the tickets of all loads, in order.
func (m *fakeStore) loaded() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.tickets)
}

// setInHost gives an adapter a copy in host memory, or takes it away.
func (m *fakeStore) setInHost(key string, there bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.inHost[key] = there
	m.news++
}

func (m *fakeStore) copy(ctx context.Context, key string) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(10 * time.Millisecond):
	}
	if m.onCopy == nil {
		return nil
	}
	return m.onCopy(key)
}

func (m *fakeStore) Evict(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.held, key)
}

func (m *fakeStore) Held() []residency.ResidentAdapter {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.held))
}

func (m *fakeStore) Pages() []uint32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	var pages []uint32
	for i := range uint32(m.pages) {
		if !m.given[i] {
			pages = append(pages, i)
		}
	}
	return pages
}

// grow adds pages.
func (m *fakeStore) grow(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pages += n
}

// intact reports whether an adapter can be read.
func (m *fakeStore) intact(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	h, ok := m.held[key]
	return ok && !slices.ContainsFunc(h.Pages, func(page uint32) bool { return m.content[page] != key })
}
