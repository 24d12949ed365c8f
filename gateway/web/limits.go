package web

import (
	"cmp"
	"net/netip"
	"syscall"
	"time"

	"troupe/actors/supervise"
)

// Limits bound the resources that clients may use. A zero field has its default.
type Limits struct {
	// MaxConnections bounds the open connections. The default is half of the process's descriptors,
	// at most 8192.
	MaxConnections int
	// MaxPerAddress bounds the open connections of one peer address. An IPv6 /64 network counts as
	// one address. The default is a quarter of MaxConnections.
	MaxPerAddress int
	// ExemptAddress reports whether MaxPerAddress does not apply to a peer, such as a proxy. Nil
	// exempts none.
	ExemptAddress func(netip.Addr) bool
	// MaxOverflow bounds the open connections beyond the limits; default 64. A further one closes
	// the oldest.
	MaxOverflow int
	// OverflowTimeout bounds the lifetime of a connection beyond the limits; default 5 s.
	OverflowTimeout time.Duration

	HeaderTimeout    time.Duration // for a TLS handshake, and for a request's headers; default 10 s
	BodyStallTimeout time.Duration // for the next bytes of a body; default 10 s
	// MinBodyRate is the minimum rate of a body in bytes per second, after BodyStallTimeout;
	// default 16 KiB/s.
	MinBodyRate  int
	IdleTimeout  time.Duration // for the next request; default 2 min
	WriteTimeout time.Duration // for the client to read a response, unless the handler sets a deadline; default 30 s
	// MaxStreams bounds the concurrent requests of an HTTP/2 connection; default 100.
	MaxStreams int
	Runtime    supervise.Runtime // measures these times; default supervise.System
}

const (
	maxConnections = 8192
	maxHeaderBytes = 32 << 10
	// lingerTimeout is how long a client may send a body that is not read, so that it can read the
	// response.
	lingerTimeout = 500 * time.Millisecond
)

// WithDefaults returns the limits with defaults filled in.
func (l Limits) WithDefaults() Limits {
	l.Runtime = supervise.OrSystem(l.Runtime)
	l.MaxConnections = cmp.Or(l.MaxConnections, max(16, min(maxConnections, MaxDescriptors()/2)))
	l.MaxPerAddress = cmp.Or(l.MaxPerAddress, max(16, l.MaxConnections/4))
	l.MaxOverflow = cmp.Or(l.MaxOverflow, 64)
	l.OverflowTimeout = cmp.Or(l.OverflowTimeout, 5*time.Second)
	l.HeaderTimeout = cmp.Or(l.HeaderTimeout, 10*time.Second)
	l.BodyStallTimeout = cmp.Or(l.BodyStallTimeout, 10*time.Second)
	l.MinBodyRate = cmp.Or(l.MinBodyRate, 16<<10)
	l.IdleTimeout = cmp.Or(l.IdleTimeout, 2*time.Minute)
	l.WriteTimeout = cmp.Or(l.WriteTimeout, 30*time.Second)
	l.MaxStreams = cmp.Or(l.MaxStreams, 100)
	return l
}

// MaxDescriptors returns the process's limit of file descriptors. The Go runtime raises the soft
// limit to the hard limit.
func MaxDescriptors() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 1024
	}
	return int(min(limit.Cur, 1<<20))
}
