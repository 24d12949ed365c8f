package catalogue

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"troupe/messages"
)

// Reconcile returns the commands that make a replica of a model match the catalogue, given the
// adapters that it reports. ForgetAdapter removes a deleted adapter that no sequence needs;
// ApplyAdapter corrects a pin.
func (c *Catalogue) Reconcile(model string, held []*messages.AdapterHeld) (tell []proto.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.synced {
		return nil
	}
	applied := make(map[string]bool)
	for _, h := range held {
		switch a := c.adapters[model][h.GetName()]; {
		case a.GetRevision() == h.GetRevision():
			applied[h.GetName()] = a.GetPinned() == h.GetPinned()
		case h.GetRevision() <= c.revision && h.GetSequences() == 0:
			tell = append(
				tell,
				&messages.ForgetAdapter{
					Adapter: &messages.AdapterSpec{Name: h.GetName(), Model: model, Revision: h.GetRevision()},
				},
			)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.adapters[model])) {
		a := c.adapters[model][name]
		if as, known := applied[name]; known && !as || !known && a.GetPinned() {
			tell = append(tell, &messages.ApplyAdapter{Adapter: a})
		}
	}
	return tell
}
