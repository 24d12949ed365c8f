package simulate

import (
	"time"

	"troupe/core/hbm"
	"troupe/core/kv"
	"troupe/core/lora"
	core "troupe/core/replica"
	"troupe/core/route"
)

// Adapters are the adapters of a deployment. Those that its requests name are registered.
type Adapters struct {
	Pages int // of hbm.PageBytes on the device of each replica
	Max   int // different adapters in a step
	// Bytes are the sizes of adapters; a hash of its name chooses that of an adapter.
	Bytes []int64
}

// bytes returns the memory of a replica's adapters.
func (a *Adapters) bytes() int64 {
	if a == nil {
		return 0
	}
	return int64(a.Pages) * hbm.PageBytes
}

func (a *Adapters) pages() int {
	if a == nil {
		return 0
	}
	return a.Pages
}

func (a *Adapters) max() int {
	if a == nil {
		return 0
	}
	return a.Max
}

// layouts returns a layout of each size. What is in them makes no difference.
func (a *Adapters) layouts() (all []*lora.Layout) {
	for _, bytes := range a.Bytes {
		l := &lora.Layout{}
		l.Add(lora.Matrix{}, bytes)
		all = append(all, l)
	}
	return all
}

// keyOf returns the key of an adapter: its name and revision.
func keyOf(adapter string) string {
	if adapter == "" {
		return ""
	}
	return adapter + "@1"
}

// adapterOf returns the adapter of a submission.
func adapterOf(name string) core.Adapter {
	if name == "" {
		return core.Adapter{}
	}
	return core.Adapter{Requested: name, Name: name, Key: keyOf(name), HasPath: true, Given: true}
}

// startPool starts the pool of a replica.
func (r *replica) startPool() {
	a := r.model.Adapters
	pages := make([]uint32, a.Pages)
	for i := range pages {
		pages[i] = uint32(i)
	}
	r.pool = &adapterPool{replica: r, node: r.device.node,
		machine: lora.NewPool(lora.Config{Pages: pages}), layouts: a.layouts(),
		reported: make(map[string]lora.Location), pins: make(map[string]string), asked: make(map[string][]time.Time)}
	r.pool.node.cache.pools = append(r.pool.node.cache.pools, r.pool)
	r.post(func(time.Time) []core.Effect { return r.machine.PoolReady() })
}

// performAdapters carries out an effect that concerns adapters.
func (r *replica) performAdapters(effect core.Effect) {
	p := r.pool
	if _, starts := effect.(core.StartPool); starts {
		r.startPool()
	}
	if p == nil {
		return
	}
	switch e := effect.(type) {
	case core.AdoptPins:
		for _, pin := range e.Pins {
			p.post(func() { p.pin(pin) })
		}
	case core.SendPin:
		p.post(func() { p.pin(e.Pin) })
	case core.SendUnpin:
		p.post(func() { p.unpin(e.Name) })
	case core.AdapterRequested:
		p.post(func() { p.requested(e.Adapter) })
	}
}

// rootOf returns the root of the KV blocks of an adapter's requests.
func (m *model) rootOf(adapter string) kv.Hash {
	if adapter == "" {
		return m.root
	}
	return kv.Root(m.Name, keyOf(adapter), nil)
}

// residences returns where a replica has its adapters, as routers see it.
func residences(held []core.AdapterStatus) map[string]route.Residence {
	if len(held) == 0 {
		return nil
	}
	where := make(map[string]route.Residence, len(held))
	for _, a := range held {
		switch a.Tier {
		case lora.GPU:
			where[a.Key] = route.OnGPU
		case lora.DRAM:
			where[a.Key] = route.InDRAM
		}
	}
	return where
}
