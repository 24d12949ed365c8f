// Package costs finds what the steps of a deployment cost on a kind of device: in a profile of troupe calibrate,
// or, for simulated devices, as they compute it themselves.
package costs

import (
	"path"
	"sync"

	"troupe/core/backend"
	"troupe/core/cost"
	"troupe/cuda/simulated"
	"troupe/messages"
)

// Costs are the costs that a node knows. It is safe for concurrent use.
type Costs struct {
	Profiles  []cost.Profile     // measured; the first one of a model and a kind of device counts
	Simulated []simulated.Config // devices
	// Predict returns the costs of a model's steps on a simulated device. It reads the model's folder.
	Predict func(path string, on simulated.Config) (cost.Steps, error)

	mu    sync.Mutex
	known map[key]cost.Steps // on simulated devices
}

// key is a model on a kind of device.
type key struct{ device, path, revision string }

// Steps returns the costs of a deployment's steps on a kind of device, and whether they are known. weights are its
// bytes; 0: unknown. It may block.
func (c *Costs) Steps(device string, d *messages.DeploymentSpec, weights int64) (cost.Steps, bool) {
	if backend.Kind(d.GetEngine().GetKind()).OrNative() == backend.Simulated {
		return c.simulated(key{device, d.GetPath(), d.GetRevisionDigest()})
	}
	for _, p := range c.Profiles {
		if p.Fits(device, weights, d.GetName(), path.Base(d.GetPath())) {
			return p.Steps.Steps, true
		}
	}
	return cost.Steps{}, false
}

func (c *Costs) simulated(of key) (cost.Steps, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, known := c.known[of]; known {
		return s, true
	}
	for _, d := range c.Simulated {
		if d.Name() != of.device || c.Predict == nil {
			continue
		}
		s, err := c.Predict(of.path, d)
		if err != nil {
			return s, false // its folder is not there, or is damaged; replicas report that
		}
		if c.known == nil {
			c.known = make(map[key]cost.Steps)
		}
		c.known[of] = s
		return s, true
	}
	return cost.Steps{}, false
}
