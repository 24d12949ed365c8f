package catalogue

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"troupe/cluster/control"
	"troupe/cluster/store"
	"troupe/messages"
)

// Catalogue is what there is. It is safe for concurrent use.
type Catalogue struct {
	mu       sync.Mutex
	adapters map[string]map[string]*messages.AdapterSpec // model -> name -> adapter; never changed, only replaced
	heard    uint64                                      // revision of the newest change
	synced   bool                                        // everything that is stored has been heard of
	changed  chan struct{}                               // closed by the next change
}

// New returns an empty catalogue; Follow fills it.
func New() *Catalogue {
	return &Catalogue{adapters: make(map[string]map[string]*messages.AdapterSpec), changed: make(chan struct{})}
}

// Apply takes a change that a watch of the store tells.
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
	c.heard = max(c.heard, change.At)
	close(c.changed)
	c.changed = make(chan struct{})
}

// Await waits until all that is stored was heard of, and then until an adapter is as ok wants it; it is nil while there is none of that name.
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
			return fmt.Errorf("the catalogue of adapters: %w", ctx.Err())
		}
	}
}

// All returns the adapters of a model, or of all where that is empty, in the order of model and name.
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

// Name is how a request names an adapter without doubt.
func Name(a *messages.AdapterSpec) string { return a.GetModel() + ":" + a.GetName() }

// Find returns the adapter that a request names, "<adapter>" or "<model>:<adapter>", among those that the caller may use: nil where there is none, and
// a control.Refusal where there are several.
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
		fmt.Sprintf("%q is the name of %d adapters: %s; ask for one of these", asked, len(found), strings.Join(names, ", ")))
}

// Key names an adapter with its present revision; "" where there is none of that name.
func (c *Catalogue) Key(model, name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.adapters[model][name].Key()
}

// Heard is a number that grows with each change.
func (c *Catalogue) Heard() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.heard
}
