package scenario

import (
	"fmt"
	"time"

	"troupe/core/lora"
	"troupe/core/units"
	"troupe/simulate"
)

// Adapters are the adapters of a deployment.
type Adapters struct {
	Rank  int    `yaml:"rank"`  // of adapters for q, k, v and o in 16 bits
	Ranks []int  `yaml:"ranks"` // instead: several, in equal shares
	Bytes string `yaml:"bytes"` // instead: the size of each adapter
	Pages int    `yaml:"pages"` // of 2 MiB, on the device of each replica
	Max   int    `yaml:"max"`   // different ones in a step; 0: 32
}

// Names are the adapters that generated requests name.
type Names struct {
	Count int      `yaml:"count"`
	List  []string `yaml:"names"` // instead of Count, the most popular first
	Zipf  float64  `yaml:"zipf"`
}

// sizeOf reads a size; an empty one is 0.
func (f *File) sizeOf(at, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	size, err := units.ParseBytes(text)
	if err != nil || size == 0 {
		return 0, f.wrong(at, "is %q; write a size such as 64GB", text)
	}
	return size, nil
}

// node reads what the devices of a node share.
func (f *File) node(at string, n Node) (out simulate.Node, err error) {
	out.Name = n.Name
	if out.HostCache, err = f.sizeOf(at+".host_cache", n.HostCache); err != nil {
		return out, err
	}
	if out.WeightsDisk, err = f.sizeOf(at+".weights_disk", n.WeightsDisk); err != nil {
		return out, err
	}
	if out.DiskRead, err = f.linkOf(at+".disk_read", n.DiskRead, 0); err != nil {
		return out, err
	}
	if out.DiskWrite, err = f.linkOf(at+".disk_write", n.DiskWrite, 0); err != nil {
		return out, err
	}
	if err = f.loads(&out); err != nil {
		return out, err
	}
	out.Tiers, err = f.tiers(at, n.Tiers)
	return out, err
}

// linkOf reads a link from its bytes per second.
func (f *File) linkOf(at, perSecond string, latency time.Duration) (simulate.Link, error) {
	bytes, err := f.sizeOf(at, perSecond)
	return simulate.Link{BytesPerSecond: float64(bytes), Latency: latency}, err
}

// hostLink returns the link of a device to host memory: what the scenario says, or what its profile does.
func (f *File) hostLink(at string, d Device) (simulate.Link, error) {
	if d.Latency.Duration < 0 {
		return simulate.Link{}, f.wrong(at+".latency", "is negative; leave it out if copies begin at once")
	}
	l, err := f.linkOf(at+".link", d.Link, d.Latency.Duration)
	if p, unknown := f.profile(d.Kind); l.BytesPerSecond == 0 && unknown == nil && p.Device.PCIeBandwidth != nil {
		l.BytesPerSecond = p.Device.PCIeBandwidth.Value
	}
	return l, err
}

// adapters reads the adapters of a deployment; nil if it takes none.
func (s *Scenario) adapters(f *File, at string, d Deployment, m Model) (*simulate.Adapters, error) {
	a := d.Adapters
	if a == nil {
		return nil, nil
	}
	at += ".adapters"
	if a.Pages < 1 || a.Pages > 1<<20 {
		return nil, f.wrong(at+".pages", "is %d; write the number of pages of 2 MiB on each device", a.Pages)
	}
	if a.Max < 0 || a.Max > 4096 {
		return nil, f.wrong(at+".max", "is %d; write how many different adapters a step may have", a.Max)
	}
	out := &simulate.Adapters{Pages: a.Pages, Max: a.Max}
	if a.Max == 0 {
		out.Max = 32
	}
	ranks := a.Ranks
	if a.Rank != 0 {
		ranks = append(ranks, a.Rank)
	}
	switch {
	case a.Bytes != "" && len(ranks) == 0:
		bytes, err := f.sizeOf(at+".bytes", a.Bytes)
		out.Bytes = []int64{bytes}
		return out, err
	case a.Bytes != "" || len(ranks) == 0 || a.Rank != 0 && len(ranks) > 1:
		return nil, f.wrong(at, "needs one of rank, ranks and bytes, for the sizes of adapters")
	}
	for i, rank := range ranks {
		if rank < 1 || rank > 4096 {
			return nil, f.wrong(fmt.Sprintf("%s.ranks[%d]", at, i), "is %d; write the rank of an adapter, such as 16",
				rank)
		}
		out.Bytes = append(out.Bytes, attentionBytes(m, rank))
	}
	return out, nil
}

// attentionBytes returns the size of an adapter for q, k, v and o, with 2 bytes for each element.
func attentionBytes(m Model, rank int) int64 {
	l, q, kv := &lora.Layout{}, m.Facts.Heads*m.Facts.HeadDim, m.Facts.KVHeads*m.Facts.HeadDim
	for layer := range m.Facts.Layers {
		for target, out := range []int{lora.Q: q, lora.K: kv, lora.V: kv, lora.O: m.Facts.Hidden} {
			in := m.Facts.Hidden
			if lora.Target(target) == lora.O {
				in = q
			}
			l.Add(lora.Matrix{Layer: layer, Target: lora.Target(target), Part: lora.A}, int64(2*rank*in))
			l.Add(lora.Matrix{Layer: layer, Target: lora.Target(target), Part: lora.B}, int64(2*rank*out))
		}
	}
	return l.Bytes()
}
