package web

import (
	"cmp"
	"net/netip"
	"syscall"
	"time"
)

// Limits bound what clients may take. A zero field has its default.
type Limits struct {
	// Connections is how many may be open. Default: half of the descriptors that the process may
	// have, 8192 at most.
	Connections int
	// PerAddress is how many of them one peer address may have; default a quarter. An IPv6 network
	// of 64 bits counts as one address.
	PerAddress int
	// Exempt reports whether PerAddress does not hold for a peer: a proxy has the connections of
	// many clients. Nil: for none.
	Exempt func(netip.Addr) bool
	// Spare is how many connections beyond the limits are open for a moment; default 64. One more
	// closes the oldest.
	Spare int
	// SpareTime is how long one of them may be open; default 5 s.
	SpareTime time.Duration

	Header time.Duration // to finish a TLS handshake, and to send a request's headers; default 10 s
	Stall  time.Duration // a body may pause for this long; default 10 s
	// Rate is the least number of bytes a second of a body, beyond Stall for the whole of it;
	// default 16 KiB.
	Rate  int
	Idle  time.Duration // a connection without a request; default 2 min
	Write time.Duration // to take an answer that sets no deadline of its own; default 30 s
	// Streams is how many requests an HTTP/2 connection may have at once; default 100.
	Streams int
}

const (
	mostConnections = 8192
	maxHeaderBytes  = 32 << 10
	// linger is how long a client may still send a body that nobody reads, so that it gets to read
	// the answer.
	linger = 500 * time.Millisecond
)

// WithDefaults returns the limits with defaults filled in.
func (l Limits) WithDefaults() Limits {
	l.Connections = cmp.Or(l.Connections, max(16, min(mostConnections, Descriptors()/2)))
	l.PerAddress = cmp.Or(l.PerAddress, max(16, l.Connections/4))
	l.Spare = cmp.Or(l.Spare, 64)
	l.SpareTime = cmp.Or(l.SpareTime, 5*time.Second)
	l.Header = cmp.Or(l.Header, 10*time.Second)
	l.Stall = cmp.Or(l.Stall, 10*time.Second)
	l.Rate = cmp.Or(l.Rate, 16<<10)
	l.Idle = cmp.Or(l.Idle, 2*time.Minute)
	l.Write = cmp.Or(l.Write, 30*time.Second)
	l.Streams = cmp.Or(l.Streams, 100)
	return l
}

// Descriptors returns how many the process may have. The Go runtime has raised the soft limit to
// the hard one.
func Descriptors() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 1024
	}
	return int(min(limit.Cur, 1<<20))
}
