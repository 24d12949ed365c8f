package dst

import (
	"context"
	"maps"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	"troupe/cluster/store"
	"troupe/messages"
)

// storedObjects are the objects of one kind in the store of a cluster, by key, with the semantics of
// cluster/store: a watch delivers what is stored, then each change.
type storedObjects[T proto.Message] struct {
	mu       sync.Mutex
	revision uint64
	all      map[string]storedObject[T]
	changed  chan struct{} // closed at the next change
}

type storedObject[T proto.Message] struct {
	value    T // nil: deleted
	revision uint64
}

func newStoredObjects[T proto.Message]() *storedObjects[T] {
	return &storedObjects[T]{all: make(map[string]storedObject[T]), changed: make(chan struct{})}
}

// put stores what change makes of a stored object, which is nil if there is none.
func (s *storedObjects[T]) put(key string, change func(old T, revision uint64) T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision++
	s.all[key] = storedObject[T]{change(s.all[key].value, s.revision), s.revision}
	close(s.changed)
	s.changed = make(chan struct{})
}

// remove deletes an object.
func (s *storedObjects[T]) remove(key string) {
	s.put(key, func(T, uint64) (none T) { return none })
}

// get returns a stored object, or nil.
func (s *storedObjects[T]) get(key string) T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[key].value
}

// since returns the objects that have changed since a revision, by key, and the present revision.
func (s *storedObjects[T]) since(revision uint64) (all map[string]storedObject[T], now uint64, next <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all = maps.Clone(s.all)
	maps.DeleteFunc(all, func(_ string, o storedObject[T]) bool { return o.revision <= revision })
	return all, s.revision, s.changed
}

// storeAccess is the access of one node to the store.
type storeAccess struct {
	client   *client
	adapters *storedObjects[*messages.AdapterSpec] // by model and name
	pins     *storedObjects[*messages.PinnedPrefix]
}

// follow calls apply with each object and change, and synced after the stored objects.
func follow[T proto.Message](ctx context.Context, c *client, s *storedObjects[T],
	apply func(key string, o storedObject[T]), synced func(),
) error {
	for seen, first := uint64(0), true; ; first = false {
		if c.isDown() {
			return errUnavailable
		}
		changes, now, next := s.since(seen)
		seen = now
		for _, key := range slices.Sorted(maps.Keys(changes)) {
			apply(key, changes[key])
		}
		if first {
			synced()
		}
		select {
		case <-next:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// WatchAdapters implements stored.AdapterStore.
func (a *storeAccess) WatchAdapters(ctx context.Context, apply func(store.AdapterChange)) error {
	return follow(ctx, a.client, a.adapters, func(key string, o storedObject[*messages.AdapterSpec]) {
		model, name := splitAdapter(key)
		apply(store.AdapterChange{Model: model, Name: name, Spec: o.value, At: o.revision})
	}, func() { apply(store.AdapterChange{Synced: true}) })
}

// WatchPins implements stored.PinStore.
func (a *storeAccess) WatchPins(ctx context.Context, apply func(store.PinChange)) error {
	return follow(ctx, a.client, a.pins, func(key string, o storedObject[*messages.PinnedPrefix]) {
		apply(store.PinChange{Name: key, Pin: o.value})
	}, func() { apply(store.PinChange{Synced: true}) })
}
