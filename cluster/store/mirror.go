package store

import (
	"maps"
	"strings"
	"sync"

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
}

// gap is how far the revisions of a bucket that is made again are above those known before, at
// least. An entry that is as far above what is known as that comes from a bucket that was made
// again.
const gap = 1024

// put takes in a revision of a key. An older one than the known one changes nothing.
func (m *mirror) put(key string, h held) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.keys == nil {
		m.keys = map[string]held{}
	}
	m.seen = max(m.seen, h.revision)
	if h.revision >= m.keys[key].revision {
		m.keys[key] = h
	}
}

// replace takes in a key of a bucket that was made again, whatever its revision.
func (m *mirror) replace(key string, h held) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen = max(m.seen, h.revision)
	m.keys[key] = h
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

// retain takes all keys with a prefix that the bucket has. Others were deleted so long ago that
// it has forgotten them.
func (m *mirror) retain(prefix string, listed map[string]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, h := range m.keys {
		if strings.HasPrefix(key, prefix) && !listed[key] {
			m.keys[key] = held{revision: h.revision, deleted: true}
		}
	}
}
