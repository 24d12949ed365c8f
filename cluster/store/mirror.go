package store

import (
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// held is the last value of a key that this node knows.
type entry struct {
	value    []byte
	revision uint64
	deleted  bool
}

// mirror holds what the store holds, as far as this node was told: the store is restored from it.
// It is safe for concurrent use.
type mirror struct {
	mu       sync.Mutex
	keys     map[string]entry
	revision uint64 // the highest revision of the bucket that is known
	// created is when the bucket was made that has all of keys.
	created  time.Time
	changes  uint64 // grows with each change of what is copied
	onChange func() // called after each; nil: not called
}

// gap is how far the revisions of a bucket that is made again are above those known before, at
// least. An entry that is as far above what is known as that comes from a bucket that was made
// again.
const revisionGap = 1024

// put takes in a revision of a key. An older one than the known one changes nothing.
func (m *mirror) put(key string, h entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.revision = max(m.revision, h.revision)
	if known := m.keys[key]; h.revision > known.revision || h.revision == known.revision && known.deleted && !h.deleted {
		m.set(key, h)
	}
}

// set is called with mu held.
func (m *mirror) set(key string, h entry) {
	if m.keys == nil {
		m.keys = map[string]entry{}
	}
	m.keys[key] = h
	m.notify()
}

// change is called with mu held.
func (m *mirror) notify() {
	m.changes++
	if m.onChange != nil {
		m.onChange()
	}
}

// made returns when the bucket was made that has all that is known.
func (m *mirror) createdAt() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.created
}

// belong notes that the bucket that was made at a time has all that is known.
func (m *mirror) setCreated(created time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.created.Equal(created) {
		m.created = created
		m.notify()
	}
}

// replace takes in a key of a bucket that was made again, whatever its revision.
func (m *mirror) replace(key string, h entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.revision = max(m.revision, h.revision)
	m.set(key, h)
}

// advance notes the last revision of the bucket.
func (m *mirror) advance(revision uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.revision = max(m.revision, revision)
}

// take takes in an entry of a watch. It reports false, and takes nothing in, where the entry comes
// from a bucket that was made again: what this node knows must be restored before, or the entry
// would hide a later deletion.
func (m *mirror) apply(e jetstream.KeyValueEntry) bool {
	if e.Revision() > m.lastRevision()+revisionGap {
		return false
	}
	m.put(e.Key(), entry{value: e.Value(), revision: e.Revision(), deleted: e.Operation() != jetstream.KeyValuePut})
	return true
}

// forget drops the highest revision, which was of another bucket.
func (m *mirror) resetRevision() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.revision = 0
}

func (m *mirror) lastRevision() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.revision
}

func (m *mirror) snapshot() map[string]entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.keys)
}

// retain takes all keys with a prefix that the bucket had when it was at a revision, or later. Others that were
// known by then were deleted so long ago that it has forgotten them.
func (m *mirror) deleteUnlisted(prefix string, listed map[string]bool, at uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, h := range m.keys {
		if strings.HasPrefix(key, prefix) && !h.deleted && h.revision <= at && !listed[key] {
			m.set(key, entry{revision: h.revision, deleted: true})
		}
	}
}
