package catalogue

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"troupe/cluster/store"
	"troupe/control"
	"troupe/messages"
)

// Catalogue is this node's copy of the stored adapters. It is safe for concurrent use.
type Catalogue struct {
	mu       sync.Mutex
	adapters map[string]map[string]*messages.AdapterSpec // model -> name -> adapter; adapters are immutable
	revision uint64                                      // revision of the latest change
	synced   bool                                        // the watch has delivered everything stored
	changed  chan struct{}                               // closed on the next change
}

// New returns an empty catalogue; Apply fills it.
func New() *Catalogue {
	return &Catalogue{adapters: make(map[string]map[string]*messages.AdapterSpec), changed: make(chan struct{})}
}

// Apply applies a change from a watch of the store.
func (c *Catalogue) Apply(change store.AdapterChange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.adapters[change.Model]
	switch {
	case change.Synced:
		c.synced = true
	case change.Spec == nil:
		delete(of, change.Name)
	case of == nil:
		c.adapters[change.Model] = map[string]*messages.AdapterSpec{change.Name: change.Spec}
	default:
		of[change.Name] = change.Spec
	}
	c.revision = max(c.revision, change.At)
	close(c.changed)
	c.changed = make(chan struct{})
}

// Await waits until the watch has delivered everything stored and ok accepts the adapter, which is
// nil if it does not exist.
func (c *Catalogue) Await(ctx context.Context, model, name string, ok func(*messages.AdapterSpec) bool) error {
	for {
		c.mu.Lock()
		done, changed := c.synced && ok(c.adapters[model][name]), c.changed
		c.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for the adapter catalogue: %w", ctx.Err())
		}
	}
}

// All returns the adapters of a model, or of all models if model is empty, ordered by model and
// name.
func (c *Catalogue) All(model string) []*messages.AdapterSpec {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []*messages.AdapterSpec
	for name, of := range c.adapters {
		if model == "" || name == model {
			all = slices.AppendSeq(all, maps.Values(of))
		}
	}
	slices.SortFunc(all, func(a, b *messages.AdapterSpec) int {
		return cmp.Or(cmp.Compare(a.GetModel(), b.GetModel()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return all
}

// Name returns an adapter's full name, <model>:<adapter>.
func Name(a *messages.AdapterSpec) string { return a.GetModel() + ":" + a.GetName() }

// Find returns the adapter that a request names, "<adapter>" or "<model>:<adapter>", among those
// that the caller may use. It returns nil if there is none and a control.Refusal if there are
// several.
func (c *Catalogue) Find(asked string, may func(*messages.AdapterSpec) bool) (*messages.AdapterSpec, error) {
	model, name, full := strings.Cut(asked, ":")
	if !full {
		model, name = "", asked
	}
	var found []*messages.AdapterSpec
	c.mu.Lock()
	for of, adapters := range c.adapters {
		if a := adapters[name]; a != nil && (!full || of == model) && may(a) {
			found = append(found, a)
		}
	}
	c.mu.Unlock()
	switch len(found) {
	case 0:
		return nil, nil
	case 1:
		return found[0], nil
	}
	names := make([]string, len(found))
	for i, a := range found {
		names[i] = Name(a)
	}
	slices.Sort(names)
	return nil, control.Refuse(messages.Reason_REASON_INVALID_ARGUMENT,
		fmt.Sprintf("%q names %d adapters: %s; use one of these names", asked, len(found), strings.Join(names, ", ")))
}

// Key returns the name of an adapter with its current revision, or "" if it does not exist.
func (c *Catalogue) Key(model, name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.adapters[model][name].Key()
}

// Deleted reports whether a revision of an adapter, by its key, is certainly not registered: the catalogue
// is complete, and it is not one that has not arrived here yet.
func (c *Catalogue) Deleted(model, key string) bool {
	a := messages.AdapterOf(key)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.synced && c.adapters[model][a.GetName()].GetRevision() != a.GetRevision() && a.GetRevision() <= c.revision
}

// Revision returns a number that grows with each change.
func (c *Catalogue) Revision() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.revision
}
