package residency

import (
	"errors"

	"troupe/engine"
)

// ImageUse is the use of an image by one load. Its memory is not freed before Close.
type ImageUse struct {
	cache *HostCache
	*ticket
}

// Claim begins the use that a ticket permits. It returns nil if the ticket has ended.
func (c *HostCache) Claim(id string) *ImageUse {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tickets[id]
	if t == nil || t.claimed || t.ended || t.image.gone || t.image.revoked != "" {
		return nil
	}
	t.claimed = true
	t.image.users++
	return &ImageUse{c, t}
}

// Filling reports whether the load fills the image.
func (u *ImageUse) Filling() bool { return u != nil && u.Fill }

// Image returns the image to load; nil if there is none.
func (u *ImageUse) Image() *engine.Image {
	if u == nil || u.Fill {
		return nil
	}
	return u.image.content
}

// Memory returns the memory of the image. It allocates the memory of one that is filled.
func (u *ImageUse) Memory() ([]byte, error) {
	if u.image.memory == nil {
		if !u.Fill || u.OnDisk {
			return nil, errors.New("the image has no memory")
		}
		if err := u.cache.allocate(u.image); err != nil {
			return nil, err
		}
	}
	return u.image.memory.Bytes()[:u.image.bytes], nil
}

// Filled reports that the memory has the content of an image.
func (u *ImageUse) Filled(image *engine.Image) {
	u.cache.mu.Lock()
	defer u.cache.mu.Unlock()
	u.image.content, u.Digest = image, image.Digests.Revision
}

// Failed notes why the image was not filled.
func (u *ImageUse) Failed(err error) {
	u.cache.mu.Lock()
	defer u.cache.mu.Unlock()
	u.Why = err.Error()
}

// Damaged reports that the content of the image is not what was stored. No other load begins to use
// it.
func (u *ImageUse) Damaged(err error) {
	u.cache.mu.Lock()
	defer u.cache.mu.Unlock()
	u.ticket.Damaged = err.Error()
	u.image.revoked = err.Error()
	u.cache.news++
}

// Close ends the use.
func (u *ImageUse) Close() error {
	if u == nil {
		return nil
	}
	c := u.cache
	c.mu.Lock()
	u.ended = true
	u.image.users--
	free, changed := u.image.gone && u.image.users == 0, c.changed
	c.mu.Unlock()
	var err error
	if free {
		err = u.image.free()
	}
	if changed != nil {
		changed()
	}
	return err
}
