package hostcache

import (
	"cmp"
	"slices"
)

// Machine decides which images are in host memory. It is not safe for concurrent use.
type Machine struct {
	budget  int64
	used    int64
	images  map[Key]*image
	names   map[Name]*image
	uses    uint64 // so far
	effects []Effect
}

// image is an image that is not absent.
type image struct {
	key     Key
	bytes   int64
	state   State
	readers map[string]bool
	pinned  bool
	waiters []string // in order, while it is being filled
	fault   string   // why it is revoked
	last    uint64   // number of the last use
}

// event is one event. Only the fields of its kind are set.
type event struct {
	kind   Event
	key    Key
	bytes  int64
	reader string
	pinned bool
	digest string // of the content
	name   Name
	why    string
}

// New returns the machine of an empty cache with a budget in bytes.
func New(budget int64) *Machine {
	return &Machine{budget: budget, images: make(map[Key]*image), names: make(map[Name]*image)}
}

// Fill asks for memory for an image that will be filled. An image that is there is used again, and
// the caller need not fill it.
func (m *Machine) Fill(key Key, bytes int64, pinned bool) []Effect {
	return m.on(event{kind: evFill, key: key, bytes: bytes, pinned: pinned})
}

// Filled reports that the memory of an image has its content, and the digest of that.
func (m *Machine) Filled(key Key, digest string) []Effect {
	return m.on(event{kind: evFilled, key: key, digest: digest, why: "already there"})
}

// Failed reports that an image was not filled, and why.
func (m *Machine) Failed(key Key, why string) []Effect {
	return m.on(event{kind: evFailed, key: key, why: why})
}

// Open counts a reader of an image, which is not freed until Close.
func (m *Machine) Open(key Key, reader string) []Effect {
	return m.on(event{kind: evOpen, key: key, reader: reader})
}

// Close ends what Open began.
func (m *Machine) Close(key Key, reader string) []Effect {
	return m.on(event{kind: evClose, key: key, reader: reader})
}

// Pin keeps an image from being evicted.
func (m *Machine) Pin(key Key) []Effect {
	return m.on(event{kind: evPin, key: key, pinned: true})
}

// Unpin lets an image be evicted.
func (m *Machine) Unpin(key Key) []Effect {
	return m.on(event{kind: evUnpin, key: key})
}

// Revoke frees an image that is damaged or outdated, at once or when it is no longer used.
func (m *Machine) Revoke(key Key, why string) []Effect {
	return m.on(event{kind: evRevoke, key: key, why: why})
}

// Recovered reports an image that an earlier incarnation has filled.
func (m *Machine) Recovered(key Key, bytes int64, pinned bool) []Effect {
	return m.on(event{kind: evRecovered, key: key, bytes: bytes, pinned: pinned})
}

// State returns the state of an image.
func (m *Machine) State(key Key) State {
	if i := m.images[key]; i != nil {
		return i.state
	}
	return Absent
}

// Images returns the images that are not absent, by key.
func (m *Machine) Images() []Image {
	all := make([]Image, 0, len(m.images))
	for _, i := range m.images {
		all = append(all, Image{i.key, i.bytes, i.state, len(i.readers), i.pinned, m.namesOf(i)})
	}
	slices.SortFunc(all, func(a, b Image) int { return a.Compare(b.Key) })
	return all
}

// Compare orders keys.
func (k Key) Compare(other Key) int {
	return cmp.Or(cmp.Compare(k.Digest, other.Digest), cmp.Compare(k.Layout, other.Layout))
}

// Usage returns how the memory is used.
func (m *Machine) Usage() Usage {
	u := Usage{Budget: m.budget, Used: m.used}
	for _, i := range m.images {
		switch {
		case i.state != Ready || len(i.readers) > 0:
			u.InUse += i.bytes
		case i.pinned:
			u.Pinned += i.bytes
		}
	}
	return u
}
