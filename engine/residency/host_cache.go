package residency

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"troupe/core/hostcache"
	"troupe/cuda"
	"troupe/engine"
)

// HostCache holds images of weights and adapters in page-locked host memory, which all devices of a node copy. It
// survives the actor that decides which images it holds. Loads use an image, or fill one, with a
// ticket that the actor has issued; a ticket that has ended is reported to the actor once, with its
// outcome. It is safe for concurrent use.
type HostCache struct {
	devices []cuda.Device

	mu      sync.Mutex
	images  map[hostcache.Key]*heldImage
	names   map[hostcache.Name]*heldImage // of adapters
	news    uint64                        // changes of which adapters there are
	tickets map[string]*ticket
	uses    uint64
	changed func() // called when a ticket has ended; nil: not called
}

// heldImage is an image, or the memory for one.
type heldImage struct {
	key     hostcache.Key
	bytes   int64
	content *engine.Image       // nil: it is being filled, or of an adapter
	adapter *engine.AdapterCopy // nil: it is being filled, or of weights
	memory  cuda.HostMemory
	shares  []func() // end the use of the memory by other devices
	revoked string   // why it serves no new load
	users   int      // loads in flight that use the memory
	gone    bool     // it is freed with its last user
	last    uint64   // number of the last use
}

// ticket permits one load to read an image or to fill it.
type ticket struct {
	Ticket
	image   *heldImage
	claimed bool
	ended   bool
	expires time.Time // if it is not claimed
}

// Ticket describes a ticket and, once it has ended, its outcome.
type Ticket struct {
	ID      string
	Key     hostcache.Key
	Fill    bool
	OnDisk  bool   // the image that is filled is on disk
	Digest  string // of the content that was filled; empty: it was not filled
	Adapter bool   // an adapter was filled
	Why     string // why it was not filled
	Damaged string // how the image that was read is damaged; empty: it is not
}

// HeldImage describes an image for an actor that recovers.
type HeldImage struct {
	Key     hostcache.Key
	Bytes   int64
	Filling bool
	OnDisk  bool // it is being filled there
	Revoked string
	Readers []string            // tickets
	Model   *engine.Image       // nil: it is being filled, or of an adapter
	Adapter *engine.AdapterCopy // nil: it is being filled, or of weights
	Names   []hostcache.Name    // of the adapter, in order
}

// NewHostCache returns an empty cache whose memory these devices copy.
func NewHostCache(devices ...cuda.Device) *HostCache {
	return &HostCache{
		devices: devices, images: make(map[hostcache.Key]*heldImage), tickets: make(map[string]*ticket),
		names: make(map[hostcache.Name]*heldImage),
	}
}

// OnEnded sets the function that is called when a ticket has ended. It must not block.
func (c *HostCache) OnEnded(changed func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed = changed
}

// Reserve makes room for an image. Its memory is allocated by the load that fills it. It does nothing
// if the image is there.
func (c *HostCache) Reserve(key hostcache.Key, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.images[key] == nil {
		c.images[key] = &heldImage{key: key, bytes: bytes}
		c.use(c.images[key])
	}
}

func (c *HostCache) use(i *heldImage) {
	c.uses++
	i.last = c.uses
}

// Rename gives an image another key.
func (c *HostCache) Rename(from, to hostcache.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := c.images[from]; i != nil {
		delete(c.images, from)
		i.key, c.images[to] = to, i
	}
}

// Revoke marks an image that must serve no new load.
func (c *HostCache) Revoke(key hostcache.Key, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := c.images[key]; i != nil {
		i.revoked = why
		c.news++
	}
}

// Free removes an image. The caller runs release, which frees the memory and may take a while; it is nil
// if the last load that uses the memory frees it.
func (c *HostCache) Free(key hostcache.Key) (release func() error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := c.images[key]
	if i == nil {
		return nil
	}
	delete(c.images, key)
	maps.DeleteFunc(c.names, func(_ hostcache.Name, of *heldImage) bool { return of == i })
	i.gone = true
	c.news++
	if i.users > 0 {
		return nil
	}
	return i.free
}

// free frees the memory of an image that nothing uses.
func (i *heldImage) free() error {
	for _, end := range i.shares {
		end()
	}
	if i.memory == nil {
		return nil
	}
	memory := i.memory
	i.memory, i.shares = nil, nil
	return memory.Free()
}

// Issue permits one load to read an image, or to fill it. The ticket ends at the given time if it is
// not claimed before.
func (c *HostCache) Issue(id string, key hostcache.Key, fill bool, expires time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := c.images[key]; i != nil {
		c.tickets[id] = &ticket{Ticket: Ticket{ID: id, Key: key, Fill: fill}, image: i, expires: expires}
		c.use(i)
	}
}

// IssueDisk permits one load to write an image to the disk, for which there is room. Otherwise it is like
// Issue.
func (c *HostCache) IssueDisk(id string, key hostcache.Key, bytes int64, expires time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tickets[id] = &ticket{
		Ticket: Ticket{ID: id, Key: key, Fill: true, OnDisk: true}, image: &heldImage{key: key, bytes: bytes},
		expires: expires,
	}
}

// Expire ends the tickets that nothing has claimed in time.
func (c *HostCache) Expire(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.tickets {
		if !t.claimed && now.After(t.expires) {
			t.ended = true
			t.Why = cmp.Or(t.Why, "its load did not begin")
		}
	}
}

// Ended returns the tickets that have ended, by their IDs. They are kept until Forget.
func (c *HostCache) Ended() (all []Ticket) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(c.tickets)) {
		if t := c.tickets[id]; t.ended {
			described := t.Ticket
			described.Key = t.image.key
			all = append(all, described)
		}
	}
	return all
}

// Forget removes a ticket that has ended.
func (c *HostCache) Forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.tickets, id)
}

// Held describes all images, the least recently used first, and then those that tickets are writing to the
// disk.
func (c *HostCache) Held() (all []HeldImage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	byUse := slices.SortedFunc(maps.Values(c.images), func(a, b *heldImage) int { return cmp.Compare(a.last, b.last) })
	for _, i := range byUse {
		held := HeldImage{Key: i.key, Bytes: i.bytes, Revoked: i.revoked, Model: i.content, Adapter: i.adapter}
		held.Names = c.namesOf(i)
		for _, id := range slices.Sorted(maps.Keys(c.tickets)) {
			if t := c.tickets[id]; t.image == i && t.Fill {
				held.Filling = true
			} else if t.image == i {
				held.Readers = append(held.Readers, id)
			}
		}
		all = append(all, held)
	}
	for _, id := range slices.Sorted(maps.Keys(c.tickets)) {
		if t := c.tickets[id]; t.OnDisk {
			all = append(all, HeldImage{Key: t.Key, Bytes: t.image.bytes, Filling: true, OnDisk: true})
		}
	}
	return all
}

// Find returns an image of a revision that fits a device, or nil. The image may be freed at any time.
func (c *HostCache) Find(revision string, on cuda.Info) *engine.Image {
	if c == nil || revision == "" {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range c.images {
		if i.content != nil && i.revoked == "" && i.content.Digests.Revision == revision && i.content.Fits(on) {
			return i.content
		}
	}
	return nil
}

// FindFolder returns the image that was used last of those loaded from a folder, if it fits a device, or
// nil.
func (c *HostCache) FindFolder(path string, on cuda.Info) (found *engine.Image) {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	last := uint64(0)
	for _, i := range c.images {
		if i.content != nil && i.revoked == "" && i.content.Path == path && i.content.Fits(on) && i.last >= last {
			found, last = i.content, i.last
		}
	}
	return found
}

// Close frees all memory. No load may be in flight.
func (c *HostCache) Close() error {
	c.mu.Lock()
	keys := slices.Collect(maps.Keys(c.images))
	c.mu.Unlock()
	var errs []error
	for _, key := range keys {
		if release := c.Free(key); release != nil {
			errs = append(errs, release())
		}
	}
	return errors.Join(errs...)
}

// allocate allocates the memory of an image and shares it with all devices that can share it. The
// others copy it through a buffer.
func (c *HostCache) allocate(i *heldImage) (err error) {
	for owner, d := range c.devices {
		var failed error
		if i.memory, failed = d.AllocHost(i.bytes); failed != nil {
			i.memory, err = nil, errors.Join(err, failed)
			continue // a device that is lost allocates nothing
		}
		for other, d := range c.devices {
			sharer, unsupported := cuda.As[cuda.HostSharer](d)
			if other == owner || unsupported != nil {
				continue
			}
			if end, failed := sharer.ShareHost(i.memory); failed == nil {
				i.shares = append(i.shares, end)
			}
		}
		return nil
	}
	return fmt.Errorf("%d bytes of host memory for an image: %w", i.bytes, err)
}
