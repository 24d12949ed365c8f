package dst

import (
	"troupe/engine/residency"
	"troupe/node/stored"
)

// openCanaries lets the devices of a node verify the weights that they load, as in the product.
func (n *Node) openCanaries() {
	n.canaries = residency.NewCanaries(residency.CanaryConfig{
		Node: n.cfg.Name, Version: "dst", Now: n.runtime.Now, WithTimeout: n.runtime.WithTimeout, Publish: silent,
	})
	n.gpus.VerifyBy(n.canaries)
	n.faults.known = func(w *weights) bool {
		_, known := n.canaries.Find(n.gpus.Models()[0].CanaryKey(w))
		return known
	}
}

// damages reports whether a load leaves other bytes on the device than its source has.
func (l *Loader) damages(w *weights) bool {
	return l.faults.known != nil && l.faults.known(w) && l.faults.take(&l.faults.damage)
}

// followCanaries returns the watch of the stored records.
func (j *joined) followCanaries() stored.Watch {
	c := &stored.Canaries{
		Records: j.canaries, Store: j.store, Publish: silent, Runtime: j.node.runtime, Log: j.node.cfg.Log,
	}
	return c.Watch()
}
