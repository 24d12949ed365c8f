package loadsource

import (
	"math"
	"slices"
	"time"
)

// Kind is a kind of source.
type Kind string

// Kinds.
const (
	Device     Kind = "device"                 // weights on another device of the node
	DiskImage  Kind = "disk image"             // an image on a disk of the node
	Folder     Kind = "disk"                   // the files of the model
	Node       Kind = "node"                   // an image of another node
	NodeDevice Kind = "device of another node" // weights on a device there
	Host       Kind = "host cache"             // an image in page-locked host memory, which is as fast as the link
)

// assumed has the speed of each kind in bytes per second until it is measured. An image needs no digest
// and no conversion; another node has both a source and a link, and weights on its device pass through
// its host memory, too.
var assumed = map[Kind]float64{Host: 16e9, Device: 8e9, DiskImage: 2e9, Folder: 1e9, Node: 0.5e9, NodeDevice: 0.4e9}

const (
	// samples is how many loads of a path count.
	samples = 5
	// maxPaths bounds the paths that have a measured speed.
	maxPaths = 1024
)

// Path is what a speed is measured of.
type Path struct {
	Kind Kind
	From string // what delivers: another device, a node, a disk
	To   string // the device of the node that is loaded to
}

// key returns the parts of a path on which its speed depends. The speed over a disk or a network does not
// depend on the device.
func (p Path) key() Path {
	if p.Kind != Host && p.Kind != Device {
		p.To = ""
	}
	return p
}

// Speeds has the measured speeds of sources. It is not safe for concurrent use.
type Speeds struct {
	last  map[Path][]float64 // of the last loads in bytes per second, the oldest first
	order []Path             // the one that was measured first first
	links map[string]float64 // best speed of each device's link to host memory
}

// Observe records that a source has delivered some bytes in some time.
func (s *Speeds) Observe(p Path, bytes int64, took time.Duration) {
	if bytes <= 0 || took <= 0 {
		return
	}
	v, key := float64(bytes)/took.Seconds(), p.key()
	if p.Kind != Device {
		s.ObserveLink(p.To, v)
	}
	if s.last == nil {
		s.last = make(map[Path][]float64)
	}
	if _, known := s.last[key]; !known {
		if s.order = append(s.order, key); len(s.order) > maxPaths {
			delete(s.last, s.order[0])
			s.order = s.order[1:]
		}
	}
	all := append(s.last[key], v)
	s.last[key] = all[max(0, len(all)-samples):]
}

// ObserveLink records a speed of copies from host memory to a device, in bytes per second.
func (s *Speeds) ObserveLink(device string, perSecond float64) {
	if s.links == nil {
		s.links = make(map[string]float64)
	}
	s.links[device] = max(s.links[device], perSecond)
}

// Of returns the speed of a path in bytes per second, and whether it was measured. Direct says that the path is
// a copy between devices that reach each other directly.
func (s *Speeds) Of(p Path, direct bool) (perSecond float64, measured bool) {
	if all := s.last[p.key()]; len(all) > 0 {
		return slices.Sorted(slices.Values(all))[len(all)/2], true
	}
	v, most := assumed[p.Kind], math.Inf(1)
	if host := (Path{Kind: Host, To: p.To}); p.Kind != Host && len(s.last[host]) > 0 {
		most, _ = s.Of(host, false)
	}
	switch {
	case p.Kind == Device && direct && math.IsInf(most, 1):
		return v, false
	case p.Kind == Device && direct:
		return max(v, 2*most), false
	case p.Kind == Device: // its copies pass through host memory
		v /= 2
	}
	return min(v, most), false
}

// Best returns the highest measured speed of a kind, from anywhere to a device, or else the assumed one.
func (s *Speeds) Best(k Kind, to string) (perSecond float64) {
	for _, p := range s.order {
		if p.Kind == k && (p.To == "" || p.To == to) {
			v, _ := s.Of(p, false)
			perSecond = max(perSecond, v)
		}
	}
	if perSecond == 0 {
		perSecond, _ = s.Of(Path{Kind: k, To: to}, false)
	}
	return perSecond
}

// Floor returns the least time in which bytes can come over a path, by the best measured speeds of its source
// and of the link of its device. It is unknown if neither was measured.
func (s *Speeds) Floor(p Path, bytes int64) (least time.Duration, known bool) {
	fastest := slices.Max(append([]float64{0}, s.last[p.key()]...))
	if link := s.links[p.To]; p.Kind == Host || link > 0 && p.Kind != Device && (fastest == 0 || link < fastest) {
		fastest = link
	}
	if fastest <= 0 || bytes <= 0 {
		return 0, false
	}
	return max(1, time.Duration(float64(bytes)/fastest*float64(time.Second))), true
}
