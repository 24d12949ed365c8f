package store

import (
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// held is the last value of a key that this node knows.
type held struct {
	value    []byte
	revision uint64
	deleted  bool
}

// mirror holds what the store holds, as far as this node was told: the store is restored from it.
// It is safe for concurrent use.
type mirror struct {
	mu   sync.Mutex
	keys map[string]held
	seen uint64 // the highest revision of the bucket that is known
	// created is when the bucket was made that has all of keys.
	created time.Time
	changes uint64 // grows with each change of what is copied
	changed func() // called after each; nil: not called
}

// gap is how far the revisions of a bucket that is made again are above those known before, at
// least. An entry that is as far above what is known as that comes from a bucket that was made
// again.
const gap = 1024

// put takes in a revision of a key. An older one than the known one changes nothing.
func (m *mirror) put(key string, h held) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen = max(m.seen, h.revision)
	if known := m.keys[key]; h.revision > known.revision || h.revision == known.revision && known.deleted && !h.deleted {
		m.set(key, h)
	}
}

// set is called with mu held.
func (m *mirror) set(key string, h held) {
	if m.keys == nil {
		m.keys = map[string]held{}
	}
	m.keys[key] = h
	m.change()
}

// change is called with mu held.
func (m *mirror) change() {
	m.changes++
	if m.changed != nil {
		m.changed()
	}
}

// made returns when the bucket was made that has all that is known.
func (m *mirror) made() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.created
}

// belong notes that the bucket that was made at a time has all that is known.
func (m *mirror) belong(created time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.created.Equal(created) {
		m.created = created
		m.change()
	}
}

// replace takes in a key of a bucket that was made again, whatever its revision.
func (m *mirror) replace(key string, h held) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen = max(m.seen, h.revision)
	m.set(key, h)
}

// reached notes the last revision of the bucket.
func (m *mirror) reached(revision uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen = max(m.seen, revision)
}

// take takes in an entry of a watch. It reports false, and takes nothing in, where the entry comes
// from a bucket that was made again: what this node knows must be restored before, or the entry
// would hide a later deletion.
func (m *mirror) take(e jetstream.KeyValueEntry) bool {
	if e.Revision() > m.last()+gap {
		return false
	}
	m.put(e.Key(), held{value: e.Value(), revision: e.Revision(), deleted: e.Operation() != jetstream.KeyValuePut})
	return true
}

// forget drops the highest revision, which was of another bucket.
func (m *mirror) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen = 0
}

func (m *mirror) last() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen
}

func (m *mirror) all() map[string]held {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.keys)
}

// retain takes all keys with a prefix that the bucket had when it was at a revision, or later. Others that were
// known by then were deleted so long ago that it has forgotten them.
func (m *mirror) retain(prefix string, listed map[string]bool, at uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, h := range m.keys {
		if strings.HasPrefix(key, prefix) && !h.deleted && h.revision <= at && !listed[key] {
			m.set(key, held{revision: h.revision, deleted: true})
		}
	}
}
