package cluster

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// Host is where processes run: this machine, or a network namespace that acts as a separate
// machine.
type Host struct {
	Name string
	Addr netip.Addr

	mu        sync.RWMutex // read-locked while a thread enters the namespace
	namespace *os.File     // nil for this machine
	tun       *os.File     // the interface; reads and writes are packets
}

// loopback is this machine, by its loopback address.
var loopback = &Host{Name: "loopback", Addr: netip.AddrFrom4([4]byte{127, 0, 0, 1})}

// mtu is large, since every packet costs two system calls.
const mtu = 9000

// newHost creates a host with one address in subnet. Its only interface besides loopback is a TUN
// device.
func newHost(name string, subnet netip.Prefix, addr netip.Addr) (*Host, error) {
	h := &Host{Name: name, Addr: addr}
	err := onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("unshare: %w; network namespaces need CAP_SYS_ADMIN, run as root", err)
		}
		var err error
		if h.namespace, err = os.Open("/proc/thread-self/ns/net"); err != nil {
			return err
		}
		if h.tun, err = openTUN("eth0"); err != nil {
			return err
		}
		for _, args := range [][]string{
			{"link", "set", "lo", "up"},
			{"addr", "add", netip.PrefixFrom(addr, subnet.Bits()).String(), "dev", "eth0"},
			{"link", "set", "eth0", "mtu", fmt.Sprint(mtu), "up"},
		} {
			if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
				return fmt.Errorf("ip %v: %w: %s", args, err, out)
			}
		}
		return nil
	})
	if err != nil {
		h.close()
		return nil, fmt.Errorf("network namespace for %s: %w", name, err)
	}
	return h, nil
}

// openTUN creates an interface in the network namespace of the calling thread. Each read or write
// of the file is one packet, with checksums.
func openTUN(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("/dev/net/tun: %w; the kernel needs CONFIG_TUN, and a container needs the device", err)
	}
	req, err := unix.NewIfreq(name)
	if err == nil {
		req.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, req)
	}
	if err != nil {
		_ = unix.Close(fd) // the first error is reported
		return nil, fmt.Errorf("create interface %s: %w", name, err)
	}
	// The poller must not see the descriptor before it has an interface.
	return os.NewFile(uintptr(fd), "tun "+name), nil
}

// enter moves the calling thread to the host. The thread must be locked to its goroutine and end
// with it.
func (h *Host) enter() error {
	if h.namespace == nil {
		return nil
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	if err := unix.Setns(int(h.namespace.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter the namespace of %s: %w", h.Name, err)
	}
	return nil
}

// Dial connects to an address as a process on the host would.
func (h *Host) Dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	if h.namespace == nil {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	err = h.Do(func() (err error) {
		conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// Do runs f on a thread of the host. Sockets that f opens belong to the host and stay there.
func (h *Host) Do(f func() error) error {
	return onThread(func() error {
		if err := h.enter(); err != nil {
			return err
		}
		return f()
	})
}

func (h *Host) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range []*os.File{h.tun, h.namespace} {
		if f != nil {
			_ = f.Close() // nothing was buffered
		}
	}
}

// onThread runs f on a new thread, which ends afterwards, since f may have changed its namespace.
func onThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		done <- f()
	}()
	return <-done
}
