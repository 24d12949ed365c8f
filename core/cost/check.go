package cost

import (
	"fmt"
	"math"
)

// Invalid is the error of a value in a profile.
type Invalid struct {
	Key    string // path of the value: "copies.network.origin"
	Reason string // with the remedy
}

func (e *Invalid) Error() string { return e.Key + ": " + e.Reason }

// Check returns the first value of the profile that is missing or impossible as an *Invalid, or nil.
func (p Profile) Check() error {
	c := checker{}
	c.require(p.Version == Version, "version", fmt.Sprintf("is %d; this program reads version %d, measure again with "+
		"troupe calibrate", p.Version, Version))
	c.require(p.Name != "", "name", "is empty; name the profile")
	c.require(p.Device.Name != "", "device.name", "is empty; name the kind of device")
	d := p.Device
	for _, f := range []struct {
		key  string
		fact *Fact
	}{
		{"memory_bytes", d.MemoryBytes}, {"memory_bandwidth", d.MemoryBandwidth}, {"flops", d.FLOPS},
		{"pcie_bandwidth", d.PCIeBandwidth}, {"nvlink_bandwidth", d.NVLinkBandwidth},
	} {
		if f.fact != nil {
			c.positive("device."+f.key+".value", f.fact.Value)
			c.origin("device."+f.key, f.fact.Origin)
		}
	}
	if p.Model != nil {
		c.model(*p.Model)
	}
	if p.Steps != nil {
		c.steps(*p.Steps)
	}
	c.transfers(p)
	c.switches(p.Switches)
	if c.found == nil {
		return nil
	}
	return c.found
}

// checker keeps the first finding.
type checker struct{ found *Invalid }

func (c *checker) require(ok bool, key, reason string) {
	if !ok && c.found == nil {
		c.found = &Invalid{key, reason}
	}
}

func (c *checker) positive(key string, v float64) {
	c.require(v > 0 && !math.IsInf(v, 0), key, fmt.Sprintf("is %v; it must be more than 0", v))
}

func (c *checker) notNegative(key string, v float64) {
	c.require(v >= 0 && !math.IsInf(v, 0), key, fmt.Sprintf("is %v; it must be 0 or more", v))
}

func (c *checker) origin(key string, o Origin) {
	c.require((o.Measured != "") != (o.Source != ""), key+".origin",
		"set measured, the time of a measurement here, or source, where the figure was published, and not both")
	c.require(o.Measured == "" || o.On != "", key+".origin.on", "is empty; name the machine that was measured")
}

func (c *checker) model(m Model) {
	for _, size := range []struct {
		key string
		n   int
	}{
		{"layers", m.Layers}, {"hidden", m.Hidden}, {"intermediate", m.Intermediate}, {"vocab", m.Vocab},
		{"heads", m.Heads}, {"kv_heads", m.KVHeads}, {"head_dim", m.HeadDim},
		{"context_tokens", m.ContextTokens}, {"weight_bits", m.WeightBits}, {"kv_element_bytes", m.KVElementBytes},
	} {
		c.positive("model."+size.key, float64(size.n))
	}
}

func (c *checker) steps(s Stepped) {
	c.require(s.Form == Sum || s.Form == Max, "steps.form", fmt.Sprintf("is %q; use %s or %s", s.Form, Sum, Max))
	for _, term := range []struct {
		key string
		us  float64
	}{
		{"fixed_us", s.FixedUS}, {"prompt_token_us", s.PromptTokenUS}, {"decode_sequence_us", s.DecodeSequenceUS},
		{"prompt_pair_us", s.PromptPairUS}, {"context_token_us", s.ContextTokenUS}, {"weights_us", s.WeightsUS},
	} {
		c.notNegative("steps."+term.key, term.us)
	}
	c.origin("steps", s.Origin)
}

func (c *checker) transfers(p Profile) {
	for _, t := range []struct {
		key  string
		cost *Transferred
	}{
		{"copies.host_to_device", p.Copies.HostToDevice}, {"copies.device_to_host", p.Copies.DeviceToHost},
		{"copies.within_device", p.Copies.WithinDevice}, {"copies.peer_to_device", p.Copies.PeerToDevice},
		{"copies.disk_to_host", p.Copies.DiskToHost}, {"copies.host_to_disk", p.Copies.HostToDisk},
		{"copies.network", p.Copies.Network}, {"loads.folder", p.Loads.Folder},
		{"loads.disk_image", p.Loads.DiskImage}, {"loads.host_cache", p.Loads.HostCache},
	} {
		if t.cost != nil {
			c.notNegative(t.key+".latency_us", t.cost.LatencyUS)
			c.notNegative(t.key+".bytes_per_second", t.cost.BytesPerSecond)
			c.origin(t.key, t.cost.Origin)
		}
	}
}

func (c *checker) switches(s Switches) {
	for _, d := range []struct {
		key  string
		took *Duration
	}{
		{"free", s.Free}, {"free_weights", s.FreeWeights}, {"open", s.Open}, {"capture", s.Capture}, {"first", s.First},
		{"standby", s.Standby}, {"activate", s.Activate}, {"park", s.Park},
	} {
		if d.took != nil {
			c.notNegative("switches."+d.key+".median_us", d.took.MedianUS)
			c.notNegative("switches."+d.key+".p95_us", d.took.P95US)
			c.origin("switches."+d.key, d.took.Origin)
		}
	}
}
