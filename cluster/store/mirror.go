package store

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"troupe/cluster/backup"
)

// entry is the last value of a key that this node knows.
type entry struct {
	value    []byte
	revision uint64
	deleted  bool
	// stored is when the server stored the revision, by its clock; zero: unknown, until a watch delivers
	// the revision.
	stored time.Time
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
	known := m.keys[key]
	switch {
	case h.revision > known.revision || h.revision == known.revision && known.deleted && !h.deleted:
		m.set(key, h)
	case h.revision == known.revision && known.same(h) && known.stored.IsZero():
		known.stored = h.stored
		m.keys[key] = known
	}
}

// same reports whether two entries have the same value, or are both deleted.
func (h entry) same(other entry) bool {
	return h.deleted == other.deleted && bytes.Equal(h.value, other.value)
}

// overtake records the keys of a bucket that has lost revisions and was changed afterwards. Such a
// change has a later time than the known revision of its key, which the bucket has lost, but no higher
// revision. It gets one above all known ones, so that the lost revision does not replace it.
func (m *mirror) overtake(have map[string]backup.Key) (keys []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(have)) {
		h, known := entryOf(have[key]), m.keys[key]
		if h.revision > known.revision || known.stored.IsZero() || !h.stored.After(known.stored) || h.same(known) {
			continue
		}
		m.revision++
		h.revision = m.revision
		m.set(key, h)
		keys = append(keys, key)
	}
	return keys
}

// entryOf returns the entry of a key of a bucket.
func entryOf(k backup.Key) entry {
	return entry{value: k.Value, revision: k.Revision, deleted: k.Deleted, stored: k.Stored}
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
	m.put(e.Key(), entry{value: e.Value(), revision: e.Revision(), deleted: e.Operation() != jetstream.KeyValuePut,
		stored: e.Created()})
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
