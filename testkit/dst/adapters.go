package dst

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	"troupe/cluster/store"
	"troupe/messages"
)

// adapterNames are the adapters of each model, the most popular first. They do not all fit into the
// pages of a replica.
var adapterNames = []string{"a0", "a1", "a2", "a3", "a4", largeAdapter}

const (
	largeAdapter = "large"
	adapterPages = 3 // of a replica
	// adapterHostBytes is the size of a replica's cache of adapters. It holds a few small ones.
	adapterHostBytes = 3 * adapterBytes
)

// adapterStore is the catalogue of adapters in the store of a cluster, with the semantics of
// cluster/store.
type adapterStore struct {
	mu       sync.Mutex
	revision uint64
	entries  map[string]adapterEntry // by model and name
	changed  chan struct{}           // closed at the next change
}

type adapterEntry struct {
	model, name string
	spec        *messages.AdapterSpec // nil: deleted
	at          uint64
}

func newAdapterStore() *adapterStore {
	return &adapterStore{entries: make(map[string]adapterEntry), changed: make(chan struct{})}
}

// put stores an adapter. A spec with revision 0 becomes a new revision.
func (s *adapterStore) put(spec *messages.AdapterSpec) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision++
	if spec.GetRevision() == 0 {
		spec.Revision = s.revision
	}
	s.set(adapterEntry{spec.GetModel(), spec.GetName(), spec, s.revision})
}

// update changes a stored adapter.
func (s *adapterStore) update(model, name string, change func(*messages.AdapterSpec)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.entries[model+"/"+name]; old.spec != nil {
		spec := proto.CloneOf(old.spec)
		change(spec)
		s.revision++
		s.set(adapterEntry{model, name, spec, s.revision})
	}
}

// remove deletes an adapter.
func (s *adapterStore) remove(model, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision++
	s.set(adapterEntry{model, name, nil, s.revision})
}

func (s *adapterStore) set(e adapterEntry) {
	s.entries[e.model+"/"+e.name] = e
	close(s.changed)
	s.changed = make(chan struct{})
}

// adapterClient is the access of one node to the adapters. It implements stored.AdapterStore.
type adapterClient struct {
	store  *adapterStore
	isDown func() bool
	gone   <-chan struct{} // closed when the node has crashed
}

// WatchAdapters implements stored.AdapterStore.
func (c *adapterClient) WatchAdapters(ctx context.Context, apply func(store.AdapterChange)) error {
	var seen uint64
	for synced := false; ; {
		if c.isDown() {
			return errUnavailable
		}
		c.store.mu.Lock()
		var changes []store.AdapterChange
		for _, key := range slices.Sorted(maps.Keys(c.store.entries)) {
			if e := c.store.entries[key]; e.at > seen && (e.spec != nil || synced) {
				changes = append(changes, store.AdapterChange{Model: e.model, Name: e.name, Spec: e.spec, At: e.at})
			}
		}
		seen = c.store.revision
		next := c.store.changed
		c.store.mu.Unlock()
		for _, change := range changes {
			apply(change)
		}
		if !synced {
			synced = true
			apply(store.AdapterChange{Synced: true})
		}
		select {
		case <-next:
		case <-c.gone:
			return errors.New("the node has crashed")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// registerAdapters stores the adapters of all models.
func (c *cluster) registerAdapters() {
	for _, m := range models {
		for _, name := range adapterNames {
			c.register(m.name, name)
		}
	}
}

// register stores an adapter, or a new revision of it, which has other files.
func (c *cluster) register(model, name string) {
	key := model + "/" + name
	c.files[key]++
	c.adapters.put(&messages.AdapterSpec{Name: name, Model: model, Rank: adapterRank,
		Path: fmt.Sprintf("%s/%d", adapterFolder(model, name), c.files[key])})
}

// pickAdapter returns the adapter of a request: none for half of them, otherwise one by Zipf's law.
func pickAdapter(rng *rand.Rand) string {
	if rng.IntN(2) == 0 {
		return ""
	}
	return adapterNames[rand.NewZipf(rng, 1.3, 2, uint64(len(adapterNames)-1)).Uint64()]
}

// bindAdapter resolves the adapter of a call by the catalogue of its node, as the gateway does. It
// returns false if the node does not know the adapter.
func (n *Node) bindAdapter(call *Call) bool {
	name := call.Sequence.GetAdapter()
	if name == "" {
		return true
	}
	spec, err := n.catalogue.Find(call.Sequence.GetModel()+":"+name,
		func(*messages.AdapterSpec) bool { return true })
	if spec == nil || err != nil {
		call.Fail(&messages.Refused{Reason: messages.Reason_REASON_NOT_FOUND, Detail: "no adapter " + name})
		return false
	}
	call.Sequence.AdapterSpec = spec
	call.expect(adapterID(spec.GetPath()))
	return true
}
