package simulate

import (
	"fmt"
	"time"

	"troupe/core/deployment"
	"troupe/core/hostcache"
	"troupe/core/loadsource"
)

// node has what the devices of a node share. Its memory and its KV tiers are gone when it is lost; its disk is kept
// otherwise.
type node struct {
	Node
	sim      *simulation
	life     int       // number of its processes so far
	lost     bool      // it does not run, or nothing is heard from it
	cut      bool      // it is lost, but runs: its network is cut
	draining bool      // its replicas move to others
	gone     bool      // it is lost, and the other nodes have noticed
	seen     time.Time // when it was last heard from; set when it is lost
	devices  []*device

	disk, network *pipe // for weights
	images        *pipe // of weights on the disk
	onDisk        *diskImages
	read, write   link // of its disk, for adapters and KV blocks
	cache         *hostImages
	tiers         []*kvTier   // the fastest first
	remote        *remoteTier // nil: it has none
	in, out       link        // of its network, for KV blocks
	told          uint64      // announcements of its tiers to the router
	follows       int         // the process that the router follows
	speeds        loadsource.Speeds
}

// addNodes adds the nodes of all devices.
func (s *simulation) addNodes() {
	s.nodes = make(map[string]*node)
	for _, d := range s.devices {
		n := s.nodes[d.Node]
		if n == nil {
			n = &node{Node: Node{Name: d.Node}, sim: s, life: 1}
			for _, configured := range s.cfg.Nodes {
				if configured.Name == d.Node {
					n.Node = configured
				}
			}
			n.Node = n.Node.withDefaults()
			n.disk, n.network = &pipe{bandwidth: n.Disk}, &pipe{bandwidth: n.Network}
			n.images = &pipe{bandwidth: n.imageBandwidth()}
			n.onDisk = &diskImages{Machine: hostcache.New(n.WeightsDisk), node: n}
			n.read, n.write = link{Link: n.DiskRead, sim: s}, link{Link: n.DiskWrite, sim: s}
			n.cache, n.tiers = newHostImages(n.HostCache), s.newTiers(n)
			network := Link{BytesPerSecond: n.Network}
			n.in, n.out = link{Link: network, sim: s}, link{Link: network, sim: s}
			n.remote = s.newRemoteTier(n)
			s.nodes[d.Node] = n
			s.nodeOrder = append(s.nodeOrder, n)
		}
		d.node = n
		n.devices = append(n.devices, d)
	}
	s.addPairs()
}

// members returns the members of the cluster as a deployment sees them. It sees no devices but those that it
// may use.
func (m *model) members() deployment.Members {
	var e deployment.Members
	for _, n := range m.sim.nodeOrder {
		if n.gone {
			e.Departed = append(e.Departed, deployment.Departed{Name: n.Name, LastSeen: n.seen})
			continue
		}
		member := deployment.Member{Name: n.Name, ID: fmt.Sprintf("%s#%d", n.Name, n.life), Schedulable: !n.draining}
		for _, d := range n.devices {
			if m.mayUse(d) {
				member.GPUs = append(member.GPUs, d.Name)
			}
		}
		e.Members = append(e.Members, member)
	}
	return e
}
