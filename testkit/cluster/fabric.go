package cluster

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"
)

// Link is what is wrong on the way from one host to another. The zero Link is a perfect one.
type Link struct {
	Cut   bool          // every packet is lost, silently
	Delay time.Duration // of each packet; their order stays
	Loss  float64       // share of packets that are lost, 0 to 1
}

// Fabric is the network between hosts: it takes the packets of each and gives them to whom they are for, or does not.
type Fabric struct {
	hosts []*Host

	mu      sync.Mutex
	links   map[direction]Link
	queues  map[direction]chan delayedPacket // of links that have had a delay
	dropped map[direction]int
	random  *rand.Rand
	closed  bool
}

// way is one direction between two hosts, by index.
type direction struct{ from, to int }

// parcel is a packet on a slow way.
type delayedPacket struct {
	packet []byte
	due    time.Time
}

var subnet = netip.MustParsePrefix("10.99.0.0/24")

// queueLength is how many packets are on a slow way at most; a router's queue is finite too.
const queueLength = 4096

// NewFabric makes hosts 10.99.0.1, .2 and so on. The addresses are the same in every Fabric: none can reach another's. It fails where
// network namespaces or TUN devices are not permitted.
func NewFabric(seed uint64, names ...string) (*Fabric, error) {
	f := &Fabric{links: map[direction]Link{}, queues: map[direction]chan delayedPacket{}, dropped: map[direction]int{}, random: rand.New(rand.NewPCG(seed, 0))}
	addr := subnet.Addr()
	for _, name := range names {
		addr = addr.Next()
		h, err := newHost(name, subnet, addr)
		if err != nil {
			f.Close()
			return nil, err
		}
		f.hosts = append(f.hosts, h)
	}
	for i := range f.hosts {
		go f.forwardFrom(i)
	}
	return f, nil
}

// CheckFabric says why there can be no Fabric here, or nil.
func CheckFabric() error {
	f, err := NewFabric(0, "probe")
	if err == nil {
		f.Close()
	}
	return err
}

// Host returns a host by its name.
func (f *Fabric) Host(name string) *Host { return f.hosts[f.index(name)] }

func (f *Fabric) index(name string) int {
	for i, h := range f.hosts {
		if h.Name == name {
			return i
		}
	}
	panic(fmt.Sprintf("cluster: no host %q", name))
}

// Set changes the link from one host to another, in this direction alone.
func (f *Fabric) Set(from, to string, l Link) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.links[direction{f.index(from), f.index(to)}] = l
}

// SetBoth changes the links between two hosts, in both directions.
func (f *Fabric) SetBoth(a, b string, l Link) {
	f.Set(a, b, l)
	f.Set(b, a, l)
}

// SetAll changes all links of a host, in both directions.
func (f *Fabric) SetAll(name string, l Link) {
	for _, h := range f.hosts {
		if h.Name != name {
			f.SetBoth(name, h.Name, l)
		}
	}
}

// Dropped is how many packets from one host to another were lost to a Link.
func (f *Fabric) Dropped(from, to string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dropped[direction{f.index(from), f.index(to)}]
}

// Heal makes all links perfect.
func (f *Fabric) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.links)
}

// Close unplugs everything. Processes on the hosts live on, alone.
func (f *Fabric) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, lane := range f.queues {
		close(lane)
	}
	f.queues, f.closed = nil, true
	for _, h := range f.hosts {
		h.close()
	}
}

// carry forwards what a host sends, until its cable is pulled.
func (f *Fabric) forwardFrom(from int) {
	buf := make([]byte, mtu)
	for {
		n, err := f.hosts[from].tun.Read(buf)
		if err != nil {
			return
		}
		if to, ok := f.receiver(buf[:n]); ok {
			f.forward(direction{from, to}, buf[:n])
		}
	}
}

// receiver finds the host that a packet is for. Only IPv4 between hosts is carried.
func (f *Fabric) receiver(packet []byte) (int, bool) {
	if len(packet) < 20 || packet[0]>>4 != 4 {
		return 0, false
	}
	to := netip.AddrFrom4([4]byte(packet[16:20]))
	for i, h := range f.hosts {
		if h.Addr == to {
			return i, true
		}
	}
	return 0, false
}

// forward does to a packet what its link does.
func (f *Fabric) forward(w direction, packet []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.links[w]
	if f.closed || l.Cut || l.Loss > 0 && f.random.Float64() < l.Loss {
		f.dropped[w]++
		return
	}
	if l.Delay == 0 {
		_, _ = f.hosts[w.to].tun.Write(packet) // a full queue loses packets, as everywhere
		return
	}
	select {
	case f.queue(w) <- delayedPacket{append([]byte(nil), packet...), time.Now().Add(l.Delay)}:
	default: // the queue is full
	}
}

// lane returns the queue of a slow way.
func (f *Fabric) queue(w direction) chan<- delayedPacket {
	if f.queues[w] == nil {
		lane := make(chan delayedPacket, queueLength)
		f.queues[w] = lane
		go func() {
			for p := range lane {
				<-time.After(time.Until(p.due))
				_, _ = f.hosts[w.to].tun.Write(p.packet) // it may be unplugged
			}
		}()
	}
	return f.queues[w]
}
