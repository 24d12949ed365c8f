package cost

import "slices"

// Version is the version of the form of profiles.
const Version = 1

// Profile has the costs of a model on a kind of device, or only the facts of a device. What was neither
// measured nor published is nil.
type Profile struct {
	Version  int      `yaml:"version"`
	Name     string   `yaml:"name"`
	Device   Device   `yaml:"device"`
	Model    *Model   `yaml:"model,omitempty"`
	Steps    *Stepped `yaml:"steps,omitempty"`
	Copies   Copies   `yaml:"copies,omitempty"`
	Loads    Loads    `yaml:"loads,omitempty"`
	Switches Switches `yaml:"switches,omitempty"`
	Noise    *Noise   `yaml:"noise,omitempty"`
}

// Fits reports whether a profile has the costs of a model's steps on a kind of device. A model has the name of its
// folder or its deployment; its weights must have about the same size, as far as that is known.
func (p Profile) Fits(device string, weights int64, names ...string) bool {
	if p.Steps == nil || p.Model == nil || p.Device.Name != device || !slices.Contains(names, p.Model.Name) {
		return false
	}
	bytes := p.Model.WeightBytes()
	return weights == 0 || bytes == 0 || bytes < 2*weights && weights < 2*bytes
}

// Origin says where a figure comes from: a measurement on this machine, or a source.
type Origin struct {
	Measured string `yaml:"measured,omitempty"` // time of the measurement, RFC 3339; empty: not measured here
	On       string `yaml:"on,omitempty"`       // the machine that was measured, with its load
	Source   string `yaml:"source,omitempty"`   // address of a public source, or how the figure was derived
}

func (o Origin) String() string {
	if o.Measured == "" {
		return "not measured here: " + o.Source
	}
	return "measured at " + o.Measured + " on " + o.On
}

// Fact is one figure of a device with its origin.
type Fact struct {
	Value  float64 `yaml:"value"`
	Origin Origin  `yaml:"origin"`
}

// Device is a kind of device. Bandwidths are in bytes per second, in one direction.
type Device struct {
	Name            string `yaml:"name"`
	Software        bool   `yaml:"software"`
	MemoryBytes     *Fact  `yaml:"memory_bytes,omitempty"`
	MemoryBandwidth *Fact  `yaml:"memory_bandwidth,omitempty"`
	FLOPS           *Fact  `yaml:"flops,omitempty"` // per second, of dense BF16 matrices
	PCIeBandwidth   *Fact  `yaml:"pcie_bandwidth,omitempty"`
	NVLinkBandwidth *Fact  `yaml:"nvlink_bandwidth,omitempty"`
}

// Stepped are the costs of steps, with what they were fitted to.
type Stepped struct {
	Steps     `yaml:",inline"`
	Largest   Step      `yaml:"largest"` // of each kind of token, the most in a measured step; 0: not measured
	Residuals Residuals `yaml:"residuals"`
	Origin    Origin    `yaml:"origin"`
}

// Transferred is the cost of a kind of copy or load.
type Transferred struct {
	Linear    `yaml:",inline"`
	Residuals Residuals `yaml:"residuals"`
	Origin    Origin    `yaml:"origin"`
}

// Copies are the costs of copies by path.
type Copies struct {
	HostToDevice *Transferred `yaml:"host_to_device,omitempty"`
	DeviceToHost *Transferred `yaml:"device_to_host,omitempty"`
	WithinDevice *Transferred `yaml:"within_device,omitempty"`
	PeerToDevice *Transferred `yaml:"peer_to_device,omitempty"` // from another device of the node
	DiskToHost   *Transferred `yaml:"disk_to_host,omitempty"`
	HostToDisk   *Transferred `yaml:"host_to_disk,omitempty"`
	Network      *Transferred `yaml:"network,omitempty"` // between nodes
}

// Loads are the costs of loads of weights onto the device, by source.
type Loads struct {
	Folder    *Transferred `yaml:"folder,omitempty"`
	DiskImage *Transferred `yaml:"disk_image,omitempty"`
	HostCache *Transferred `yaml:"host_cache,omitempty"`
}

// Duration is the time of a part of a switch.
type Duration struct {
	MedianUS float64 `yaml:"median_us"`
	P95US    float64 `yaml:"p95_us"`
	Count    int     `yaml:"count"` // measurements
	Origin   Origin  `yaml:"origin"`
}

// Switches are the parts of switches of a device between models. A parked model comes back by a load
// from the host cache, open and capture.
type Switches struct {
	Free        *Duration `yaml:"free,omitempty"`         // an engine is closed, and its KV memory freed
	FreeWeights *Duration `yaml:"free_weights,omitempty"` // the weights are freed
	Open        *Duration `yaml:"open,omitempty"`         // KV memory and an engine for loaded weights
	Capture     *Duration `yaml:"capture,omitempty"`      // the graphs of decode steps
	First       *Duration `yaml:"first,omitempty"`        // the first step of a new engine
	Standby     *Duration `yaml:"standby,omitempty"`      // the KV memory but for its minimum is given back
	Activate    *Duration `yaml:"activate,omitempty"`     // it is leased again
	Park        *Duration `yaml:"park,omitempty"`         // the weights are copied to an image in host memory
}

// Noise is how much repeated measurements of the same step differed: the distance between their
// quartiles over their median.
type Noise struct {
	Median float64 `yaml:"median"` // over all steps of the grid
	P95    float64 `yaml:"p95"`
	Noisy  bool    `yaml:"noisy"` // the median is above NoisyAbove
}

// NoisyAbove is the noise above which the figures of a profile are doubtful.
const NoisyAbove = 0.10
