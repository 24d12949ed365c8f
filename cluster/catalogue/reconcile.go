package catalogue

import (
	"google.golang.org/protobuf/proto"

	"troupe/messages"
)

// Corrections are what a replica of a model is to be told, by what it reports: ForgetAdapter of what is in the catalogue no more, once no
// sequence needs it, and ApplyAdapter where it is not pinned as it should be.
func (c *Catalogue) Corrections(model string, held []*messages.AdapterHeld) (tell []proto.Message) {
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
		case h.GetRevision() <= c.heard && h.GetSequences() == 0:
			tell = append(tell, &messages.ForgetAdapter{Adapter: &messages.AdapterSpec{Name: h.GetName(), Model: model, Revision: h.GetRevision()}})
		}
	}
	for name, a := range c.adapters[model] {
		if as, known := applied[name]; known && !as || !known && a.GetPinned() {
			tell = append(tell, &messages.ApplyAdapter{Adapter: a})
		}
	}
	return tell
}
