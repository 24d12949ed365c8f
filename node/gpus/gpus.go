// Package gpus holds the devices of a node and the models in their memory. Both survive the actors
// that use them.
package gpus

import (
	"fmt"
	"slices"
	"sync"

	"troupe/control"
	"troupe/core/backend"
	"troupe/core/utilization"
	"troupe/cuda"
	"troupe/cuda/host"
	"troupe/cuda/simulated"
	"troupe/cuda/telemetry"
	"troupe/engine"
	"troupe/engine/residency"
	"troupe/messages"
	"troupe/node/query"
)

// GPU is a device and the source of its health and utilization data.
type GPU struct {
	cuda.Device
	Source telemetry.Source
}

// GPUs are the devices of a node. They are named gpu-0, gpu-1 and so on, in the order in which they
// were added.
type GPUs struct {
	loader func(backend.Kind) engine.Loader
	all    []GPU
	models []*residency.Store  // by the index of the device
	peaks  []utilization.Peaks // by the index of the device
	images *residency.HostCache
	disk   *residency.DiskImages
	speeds residency.Speeds
	closed sync.Once
}

// New returns devices onto which models are loaded by the loader of the kind of their engine. It takes ownership
// of the open devices.
func New(loader func(backend.Kind) engine.Loader, open ...GPU) *GPUs {
	g := &GPUs{loader: loader}
	for _, d := range open {
		g.add(d)
	}
	return g
}

// OpenSoftware opens software devices. Even if it fails, Close closes those that it opened.
func (g *GPUs) OpenSoftware(all []host.Config) error {
	for _, cfg := range all {
		d, err := host.Open(cfg)
		if err != nil {
			return err
		}
		g.add(GPU{d, telemetry.Device(d)})
		g.peaks[len(g.peaks)-1] = measured.of(cfg.Workers)
	}
	return nil
}

// OpenSimulated opens simulated devices, likewise. Their peaks are those of the devices that they stand for.
func (g *GPUs) OpenSimulated(all []simulated.Config) error {
	for _, cfg := range all {
		cfg.Index = len(g.all)
		d, err := simulated.Open(cfg)
		if err != nil {
			return err
		}
		g.add(GPU{d, telemetry.Device(d)})
		if facts := cfg.Profile.Device; facts.FLOPS != nil && facts.MemoryBandwidth != nil {
			g.peaks[len(g.peaks)-1] = utilization.Peaks{
				FLOPs: float64(max(1, cfg.Group)) * facts.FLOPS.Value,
				Bytes: float64(max(1, cfg.Group)) * facts.MemoryBandwidth.Value, Source: "facts of " + facts.Name}
		}
	}
	return nil
}

// kindOf returns the kind of the engines that a device runs.
func kindOf(d cuda.Device) backend.Kind {
	if d.Info().Ledger {
		return backend.Simulated
	}
	return backend.Native
}

// Inspect describes a model as it would be on the first device that runs its kind of engine. If there is none,
// it describes it as on any such device.
func (g *GPUs) Inspect(kind backend.Kind, path string) (engine.ModelInfo, error) {
	for i, d := range g.all {
		if kindOf(d) == kind {
			found, err := g.models[i].Inspect(path, "")
			return found.ModelInfo, err
		}
	}
	return g.loader(kind).Inspect(path, cuda.Info{})
}

// Peaks returns the highest rates of a device by its name, as far as they are known.
func (g *GPUs) Peaks(gpu string) utilization.Peaks {
	for i, p := range g.peaks {
		if query.GPUName(i) == gpu {
			return p
		}
	}
	return utilization.Peaks{}
}

// OpenHostCache opens the host cache of weights, whose memory all devices copy. It has no images yet, and
// gets none without a budget.
func (g *GPUs) OpenHostCache() {
	var devices []cuda.Device
	for _, d := range g.all {
		devices = append(devices, d.Device)
	}
	g.images = residency.NewHostCache(devices...)
	for _, m := range g.models {
		m.UseImages(g.images)
	}
}

// OpenDiskImages opens the images of weights in a folder on a local disk.
func (g *GPUs) OpenDiskImages(dir string) (err error) {
	if g.disk, err = residency.OpenDiskImages(dir); err != nil {
		return err
	}
	for _, m := range g.models {
		m.UseDiskImages(g.disk)
	}
	return nil
}

// UseOtherNodes lets the devices load weights from images of other nodes.
func (g *GPUs) UseOtherNodes(others residency.OtherNodes) {
	for _, m := range g.models {
		m.UseOtherNodes(others)
	}
}

// UseDevices lets the devices load weights from each other.
func (g *GPUs) UseDevices(devices residency.Devices) {
	for _, m := range g.models {
		m.UseDevices(devices)
	}
}

// FindWeights returns the image of weights of a revision that are on one of the devices, without content,
// or nil.
func (g *GPUs) FindWeights(revision string, on cuda.Info) *engine.Image {
	for _, m := range g.models {
		if i := m.FindWeights(revision, on); i != nil {
			return i
		}
	}
	return nil
}

// VerifyBy lets the devices verify weights by the records of canaries.
func (g *GPUs) VerifyBy(canaries *residency.Canaries) {
	for i, m := range g.models {
		m.VerifyBy(canaries, query.GPUName(i))
	}
}

// DiskImages returns the images of weights on a local disk; nil if none are kept there.
func (g *GPUs) DiskImages() *residency.DiskImages { return g.disk }

// Images returns the host cache of weights; nil before OpenHostCache.
func (g *GPUs) Images() *residency.HostCache { return g.images }

func (g *GPUs) add(d GPU) {
	g.all = append(g.all, d)
	m := residency.NewStore(d.Device, g.loader(kindOf(d)))
	m.ShareSpeeds(&g.speeds, query.GPUName(len(g.models)))
	_ = m.MeasureLink() // if that fails, as on a simulated device, the floors of loads are unknown
	g.models = append(g.models, m)
	g.peaks = append(g.peaks, utilization.FactsOf(d.Info().Name))
}

// All returns the devices.
func (g *GPUs) All() []GPU { return g.all }

// Names returns the names of the devices.
func (g *GPUs) Names() (all []string) {
	for i := range g.all {
		all = append(all, query.GPUName(i))
	}
	return all
}

// Models returns the models in the memory of each device, by the device's index.
func (g *GPUs) Models() []*residency.Store { return g.models }

// ModelsOf returns the models in the memory of a device.
func (g *GPUs) ModelsOf(gpu string) (*residency.Store, error) {
	for i, m := range g.models {
		if query.GPUName(i) == gpu {
			return m, nil
		}
	}
	return nil, control.Refuse(messages.Reason_REASON_NOT_FOUND, "no "+gpu+" on this node")
}

// Source returns where a device would load the weights of a revision from without their folder; empty: from
// nowhere. It may ask other nodes.
func (g *GPUs) Source(gpu, revision string) string {
	m, err := g.ModelsOf(gpu)
	if err != nil {
		return ""
	}
	return m.Elsewhere(revision)
}

// AllocHost allocates page-locked host memory.
func (g *GPUs) AllocHost(bytes int64) (cuda.HostMemory, error) { return g.all[0].AllocHost(bytes) }

// OpenAdapter reads the files of an adapter for a model.
func (g *GPUs) OpenAdapter(model, adapter string) (engine.AdapterFile, error) {
	return g.models[0].OpenAdapter(model, adapter)
}

// Adapters returns the device memory for the adapters of the lease of a handle.
func (g *GPUs) Adapters(gpu, handle string) (*residency.AdapterCache, error) {
	m, err := g.ModelsOf(gpu)
	if err != nil {
		return nil, err
	}
	return m.Adapters(handle)
}

// Adapter returns an adapter that is in device memory for the lease of a handle.
func (g *GPUs) Adapter(gpu, handle, key string) (*engine.Adapter, error) {
	cache, err := g.Adapters(gpu, handle)
	if err != nil {
		return nil, err
	}
	a, ok := cache.Find(key)
	if !ok {
		return nil, fmt.Errorf("a step needs adapter %s, which is not on %s", key, gpu)
	}
	return a, nil
}

// Close closes the devices, last one first.
func (g *GPUs) Close() {
	g.closed.Do(func() {
		if g.images != nil {
			_ = g.images.Close() // its memory is that of the devices
		}
		for _, d := range slices.Backward(g.all) {
			_ = d.Close()
		}
	})
}
