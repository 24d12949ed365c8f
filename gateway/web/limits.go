package web

import (
	"cmp"
	"net/netip"
	"syscall"
	"time"
)

// Limits bound what clients may take. A zero field has its default.
type Limits struct {
	// MaxConnections is how many may be open. Default: half of the descriptors that the process may
	// have, 8192 at most.
	MaxConnections int
	// MaxPerAddress is how many of them one peer address may have; default a quarter. An IPv6 network
	// of 64 bits counts as one address.
	MaxPerAddress int
	// ExemptAddress reports whether MaxPerAddress does not hold for a peer: a proxy has the connections of
	// many clients. Nil: for none.
	ExemptAddress func(netip.Addr) bool
	// MaxOverflow is how many connections beyond the limits are open for a moment; default 64. One more
	// closes the oldest.
	MaxOverflow int
	// OverflowTimeout is how long one of them may be open; default 5 s.
	OverflowTimeout time.Duration

	HeaderTimeout    time.Duration // to finish a TLS handshake, and to send a request's headers; default 10 s
	BodyStallTimeout time.Duration // a body may pause for this long; default 10 s
	// MinBodyRate is the least number of bytes a second of a body, beyond BodyStallTimeout for the whole of it;
	// default 16 KiB.
	MinBodyRate  int
	IdleTimeout  time.Duration // a connection without a request; default 2 min
	WriteTimeout time.Duration // to take an answer that sets no deadline of its own; default 30 s
	// MaxStreams is how many requests an HTTP/2 connection may have at once; default 100.
	MaxStreams int
}

const (
	maxConnections = 8192
	maxHeaderBytes = 32 << 10
	// linger is how long a client may still send a body that nobody reads, so that it gets to read
	// the answer.
	lingerTimeout = 500 * time.Millisecond
)

// WithDefaults returns the limits with defaults filled in.
func (l Limits) WithDefaults() Limits {
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

// MaxDescriptors returns how many the process may have. The Go runtime has raised the soft limit to
// the hard one.
func MaxDescriptors() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 1024
	}
	return int(min(limit.Cur, 1<<20))
}
