package residency

import (
	"maps"
	"slices"

	"troupe/core/hostcache"
	"troupe/engine"
)

// Attach gives the image of an adapter a name, which no other image has any longer.
func (c *HostCache) Attach(key hostcache.Key, name hostcache.Name) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := c.images[key]; i != nil {
		c.names[name] = i
		c.news++
	}
}

// Detach removes a name.
func (c *HostCache) Detach(name hostcache.Name) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.names, name)
	c.news++
}

// namesOf returns the names of an image. The lock is held.
func (c *HostCache) namesOf(i *heldImage) (all []hostcache.Name) {
	for _, name := range slices.SortedFunc(maps.Keys(c.names), hostcache.Name.Compare) {
		if c.names[name] == i {
			all = append(all, name)
		}
	}
	return all
}

// FindAdapter returns the copy of an adapter, or nil. It may be freed at any time.
func (c *HostCache) FindAdapter(name hostcache.Name) *engine.AdapterCopy {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := c.names[name]; i != nil && i.revoked == "" {
		return i.adapter
	}
	return nil
}

// AdapterNews returns a number that changes when an adapter gets a copy or loses it.
func (c *HostCache) AdapterNews() uint64 {
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.news
}

// Issued reports whether a ticket was issued and is not forgotten.
func (c *HostCache) Issued(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tickets[id] != nil
}

// End ends a ticket that nothing has claimed.
func (c *HostCache) End(id, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.tickets[id]; t != nil && !t.claimed {
		t.ended, t.Why = true, why
	}
}

// Adapter returns the copy to load; nil if there is none.
func (u *ImageUse) Adapter() *engine.AdapterCopy {
	if u == nil || u.Fill {
		return nil
	}
	return u.image.adapter
}

// AdapterFilled reports that the memory has the content of an adapter.
func (u *ImageUse) AdapterFilled(copy *engine.AdapterCopy) {
	u.cache.mu.Lock()
	defer u.cache.mu.Unlock()
	u.image.adapter, u.Digest, u.ticket.Adapter = copy, copy.Digest, true
	u.cache.news++
}
