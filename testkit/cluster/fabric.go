package cluster

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"
)

// Link describes the impairment of one direction between two hosts. The zero Link forwards every
// packet at once.
type Link struct {
	Cut   bool          // drop all packets silently
	Delay time.Duration // delay of each packet; the order is kept
	Loss  float64       // share of packets that are dropped, 0 to 1
}

// Fabric is the network between hosts. It forwards or drops the packets of each host.
type Fabric struct {
	hosts []*Host

	mu      sync.Mutex
	links   map[direction]Link
	queues  map[direction]chan delayedPacket // of links that have had a delay
	dropped map[direction]int
	random  *rand.Rand
	closed  bool
}

// direction identifies a sender and a receiver by index.
type direction struct{ from, to int }

// delayedPacket is a packet that waits for its delay.
type delayedPacket struct {
	packet []byte
	due    time.Time
}

var subnet = netip.MustParsePrefix("10.99.0.0/24")

// queueLength bounds the packets on a delayed link. A router's queue is finite too.
const queueLength = 4096

// NewFabric creates hosts 10.99.0.1, .2, and so on. Every Fabric uses the same addresses, since
// Fabrics cannot reach each other. NewFabric fails if network namespaces or TUN devices are not
// permitted.
func NewFabric(seed uint64, names ...string) (*Fabric, error) {
	f := &Fabric{
		links:   map[direction]Link{},
		queues:  map[direction]chan delayedPacket{},
		dropped: map[direction]int{},
		random:  rand.New(rand.NewPCG(seed, 0)),
	}
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

// CheckFabric returns the reason why no Fabric can be created here, or nil.
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

// Set sets the link from one host to another, in this direction only.
func (f *Fabric) Set(from, to string, l Link) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.links[direction{f.index(from), f.index(to)}] = l
}

// SetBoth sets the links between two hosts in both directions.
func (f *Fabric) SetBoth(a, b string, l Link) {
	f.Set(a, b, l)
	f.Set(b, a, l)
}

// SetAll sets all links of a host in both directions.
func (f *Fabric) SetAll(name string, l Link) {
	for _, h := range f.hosts {
		if h.Name != name {
			f.SetBoth(name, h.Name, l)
		}
	}
}

// Dropped returns the number of packets from one host to another that a Link has dropped.
func (f *Fabric) Dropped(from, to string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dropped[direction{f.index(from), f.index(to)}]
}

// Heal removes all impairments.
func (f *Fabric) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.links)
}

// Close disconnects all hosts. Processes on them keep running without a network.
func (f *Fabric) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, packets := range f.queues {
		close(packets)
	}
	f.queues, f.closed = nil, true
	for _, h := range f.hosts {
		h.close()
	}
}

// forwardFrom forwards the packets that a host sends, until its interface is closed.
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

// receiver returns the host that a packet is addressed to. Only IPv4 between hosts is forwarded.
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

// forward delivers, delays or drops a packet as its link specifies.
func (f *Fabric) forward(w direction, packet []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.links[w]
	if f.closed || l.Cut || l.Loss > 0 && f.random.Float64() < l.Loss {
		f.dropped[w]++
		return
	}
	if l.Delay == 0 {
		_, _ = f.hosts[w.to].tun.Write(packet) // a full queue drops packets, as in any network
		return
	}
	select {
	case f.queue(w) <- delayedPacket{append([]byte(nil), packet...), time.Now().Add(l.Delay)}:
	default: // the queue is full
	}
}

// queue returns the queue of a delayed link.
func (f *Fabric) queue(w direction) chan<- delayedPacket {
	if f.queues[w] == nil {
		packets := make(chan delayedPacket, queueLength)
		f.queues[w] = packets
		go func() {
			for p := range packets {
				<-time.After(time.Until(p.due))
				_, _ = f.hosts[w.to].tun.Write(p.packet) // the interface may be closed
			}
		}()
	}
	return f.queues[w]
}
