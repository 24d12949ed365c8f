package schedule

import "time"

// Memory is what a plan passes to the next one. It holds times and learned bounds, and no decisions: a plan
// without it is right too, but may repeat an attempt, or change a number of replicas sooner.
type Memory struct {
	Models map[string]ModelMemory // by name
	Avoid  map[string]Attempt     // by model and device, as "model on node-a/gpu-0"
}

// ModelMemory is what is remembered of a model.
type ModelMemory struct {
	LowSince time.Time // since when one replica fewer is enough; zero: it is not
	// Overload is the least rate of arrivals per replica at which there was too little headroom, although all
	// wanted replicas served. 0: none was seen.
	Overload float64
	Changed  time.Time // when its number of replicas was last changed
}

// Attempt is a start that failed or timed out.
type Attempt struct {
	Until    time.Time // no other attempt before
	Failures int       // in a row
	Why      string
}

// clone returns a copy that may be changed.
func (m Memory) clone() Memory {
	out := Memory{Models: make(map[string]ModelMemory, len(m.Models)), Avoid: make(map[string]Attempt, len(m.Avoid))}
	for name, model := range m.Models {
		out.Models[name] = model
	}
	for key, a := range m.Avoid {
		out.Avoid[key] = a
	}
	return out
}

// avoidKey returns the key of a model and a device in Avoid.
func avoidKey(model, device string) string { return model + " on " + device }

// failed notes an attempt that failed.
func (m Memory) failed(o Options, now time.Time, model string, devices []string, why string) {
	for _, d := range devices {
		key := avoidKey(model, d)
		a := m.Avoid[key]
		wait := o.Backoff << min(a.Failures, 16)
		m.Avoid[key] = Attempt{now.Add(min(wait, o.MaxBackoff)), a.Failures + 1, why}
	}
}

// succeeded forgets the failed attempts of a model on devices.
func (m Memory) succeeded(model string, devices []string) {
	for _, d := range devices {
		delete(m.Avoid, avoidKey(model, d))
	}
}
