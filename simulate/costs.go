package simulate

import (
	"cmp"
	"time"

	"troupe/core/cost"
)

// Node has what the devices of a node share. A zero field has its default.
type Node struct {
	Name      string
	Disk      float64 // bytes per second from the folders of models; loads at the same time share them
	Network   float64 // bytes per second from and to other nodes, likewise
	HostCache int64   // bytes of images of weights and adapters in host memory; 0: none
	// WeightsDisk is the size of images of weights on the disk; 0: none are kept. DiskImage has the bytes per second
	// from and to them; 0: as many as from folders.
	WeightsDisk int64
	DiskImage   float64
	DiskRead    Link  // for adapters and KV blocks
	DiskWrite   Link  // for KV blocks
	Tiers       Tiers // of KV blocks
}

// Defaults of nodes and devices. They are assumptions: nothing was measured.
const (
	DefaultDisk    = 2e9
	DefaultNetwork = 1.25e9
	DefaultLink    = 16e9
	DefaultOpen    = 500 * time.Millisecond
	DefaultCapture = 2 * time.Second
	DefaultFree    = 200 * time.Millisecond
)

func (n Node) withDefaults() Node {
	n.Disk, n.Network = cmp.Or(n.Disk, DefaultDisk), cmp.Or(n.Network, DefaultNetwork)
	return n
}

// DeviceCosts has the costs of loads and of starts of replicas on a device. A zero field has its default.
type DeviceCosts struct {
	Link    float64       // bytes per second between host memory and the device
	Peer    float64       // bytes per second from another device of the node; 0: through host memory
	Open    time.Duration // of the KV memory and the engine
	Capture time.Duration // of the graphs
	Free    time.Duration // of the memory of a replica
}

func (c DeviceCosts) withDefaults() DeviceCosts {
	c.Link = cmp.Or(c.Link, DefaultLink)
	c.Open, c.Capture = cmp.Or(c.Open, DefaultOpen), cmp.Or(c.Capture, DefaultCapture)
	c.Free = cmp.Or(c.Free, DefaultFree)
	return c
}

// CostsOf returns the costs in the profile of a device, and the disk bandwidth of its node, as far as the
// profile has them. The host cache and the folder are those of whole loads; see package cost.
func CostsOf(p cost.Profile) (costs DeviceCosts, disk, network float64) {
	bandwidth := func(t *cost.Transferred) float64 {
		if t == nil {
			return 0
		}
		return t.BytesPerSecond
	}
	duration := func(d *cost.Duration) time.Duration {
		if d == nil {
			return 0
		}
		return time.Duration(d.MedianUS * float64(time.Microsecond))
	}
	fact := func(f *cost.Fact) float64 {
		if f == nil {
			return 0
		}
		return f.Value
	}
	costs.Link = cmp.Or(bandwidth(p.Loads.HostCache), bandwidth(p.Copies.HostToDevice), fact(p.Device.PCIeBandwidth))
	costs.Peer = cmp.Or(bandwidth(p.Copies.PeerToDevice), fact(p.Device.NVLinkBandwidth))
	costs.Open, costs.Capture = duration(p.Switches.Open), duration(p.Switches.Capture)
	costs.Free = duration(p.Switches.Free)
	return costs, cmp.Or(bandwidth(p.Loads.Folder), bandwidth(p.Copies.DiskToHost)), bandwidth(p.Copies.Network)
}
