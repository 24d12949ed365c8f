package store

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// entry is the last value of a key that this node knows.
type entry struct {
	value    []byte
	revision uint64
	deleted  bool
}

// mirror holds the store's contents as far as this node knows them. A lost store is restored from
// it. It is safe for concurrent use.
type mirror struct {
	mu       sync.Mutex
	keys     map[string]entry
	revision uint64 // highest known revision of the bucket
	// created is the creation time of the bucket that has all of keys.
	created  time.Time
	changes  uint64 // incremented with each change that the copy must record
	onChange func() // called after each change; may be nil
}

// revisionGap is the minimum distance between the revisions known before and those of a recreated
// bucket. An entry that is further above the known revisions comes from a recreated bucket.
const revisionGap = 1024

// put records a revision of a key. It ignores revisions older than the known one.
func (m *mirror) put(key string, h entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.revision = max(m.revision, h.revision)
	if known := m.keys[key]; h.revision > known.revision ||
		h.revision == known.revision && known.deleted && !h.deleted {
		m.set(key, h)
	}
}

// set stores an entry. The caller holds mu.
func (m *mirror) set(key string, h entry) {
	if m.keys == nil {
		m.keys = map[string]entry{}
	}
	m.keys[key] = h
	m.notify()
}

// notify counts a change and reports it. The caller holds mu.
func (m *mirror) notify() {
	m.changes++
	if m.onChange != nil {
		m.onChange()
	}
}

// createdAt returns the creation time of the bucket whose keys are all known.
func (m *mirror) createdAt() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.created
}

// setCreated records the creation time of the bucket whose keys are all known.
func (m *mirror) setCreated(created time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.created.Equal(created) {
		m.created = created
		m.notify()
	}
}

// replace records a key of a recreated bucket, whatever its revision.
func (m *mirror) replace(key string, h entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.revision = max(m.revision, h.revision)
	m.set(key, h)
}

// advance records the last revision of the bucket.
func (m *mirror) advance(revision uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.revision = max(m.revision, revision)
}

// apply records an entry of a watch. If the entry comes from a recreated bucket, apply records
// nothing and returns false: the node must restore what it knows first, or the entry would hide a
// later deletion.
func (m *mirror) apply(e jetstream.KeyValueEntry) bool {
	if e.Revision() > m.lastRevision()+revisionGap {
		return false
	}
	m.put(e.Key(), entry{value: e.Value(), revision: e.Revision(), deleted: e.Operation() != jetstream.KeyValuePut})
	return true
}

// resetRevision drops the highest revision, which belongs to another bucket.
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

// unlisted returns the keys that a listing at a revision does not contain although they were there.
func (m *mirror) unlisted(prefix string, listed map[string]bool, at uint64) (keys []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, h := range m.keys {
		if strings.HasPrefix(key, prefix) && !h.deleted && h.revision <= at && !listed[key] {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// markDeleted records that the bucket holds neither the key nor a marker of its deletion.
func (m *mirror) markDeleted(key string, at uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h := m.keys[key]; h.revision <= at {
		m.set(key, entry{revision: h.revision, deleted: true})
	}
}
