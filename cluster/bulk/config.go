package bulk

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/rs/zerolog"

	"troupe/actors/supervise"
)

// MaxChunkBytes is the largest chunk size that a transfer may have.
const MaxChunkBytes = 16 << 20

const (
	maxConnections = 1024 // incoming
	maxStreams     = 4096 // open per connection
)

// Errors of Send that callers distinguish.
var (
	// ErrRefused means that the transfer has ended or is unknown at the receiver, or that the token is
	// wrong.
	ErrRefused = errors.New("transfer refused")
	// ErrSink means that put failed at the receiver; the text is that of put's error.
	ErrSink = errors.New("receiver failed to store the chunk")
	// ErrChecksum means that a chunk was still damaged after the last retry.
	ErrChecksum = errors.New("chunk damaged on every try")
	ErrClosed   = errors.New("data plane of this node is closed")
)

// Config describes the data plane of a node. Zero values mean the defaults.
type Config struct {
	Listen    string // host:port; port 0 picks a free one. Default 127.0.0.1:0
	Advertise string // host:port that peers dial; port 0 means the listener's. Default: the listener's address

	ServerTLS *tls.Config                // for incoming connections; nil means plain TCP
	ClientTLS func(net.Conn) *tls.Config // for an outgoing connection; nil means plain TCP

	// Window is the number of bytes that a peer may have in flight to this node. Default 32 MiB.
	Window int
	// ExpireAfter ends a transfer that has received no chunk for this long. Default 60 s.
	ExpireAfter time.Duration
	// SinkTimeout fails a transfer whose put takes longer. Default 30 s.
	SinkTimeout time.Duration
	// IdleAfter closes a connection that has had no transfer for this long. Default 60 s.
	IdleAfter time.Duration
	// SilentAfter closes a connection whose peer owes an answer and has sent nothing for this long.
	// Default 15 s.
	SilentAfter time.Duration

	Log     zerolog.Logger
	Runtime supervise.Runtime // Default supervise.System
}

// Validate fills in defaults and checks the limits.
func (c *Config) Validate() error {
	c.Runtime = supervise.OrSystem(c.Runtime)
	if c.Listen == "" {
		c.Listen = "127.0.0.1:0"
	}
	if c.Window == 0 {
		c.Window = 32 << 20
	}
	if c.Window < 64<<10 || c.Window > 1<<30 {
		return fmt.Errorf("data plane: Window is %d bytes; set 64 KiB to 1 GiB", c.Window)
	}
	for _, d := range []struct {
		of   *time.Duration
		def  time.Duration
		name string
	}{
		{&c.ExpireAfter, time.Minute, "ExpireAfter"}, {&c.SinkTimeout, 30 * time.Second, "SinkTimeout"},
		{&c.IdleAfter, time.Minute, "IdleAfter"}, {&c.SilentAfter, 15 * time.Second, "SilentAfter"},
	} {
		if *d.of == 0 {
			*d.of = d.def
		}
		if *d.of < 0 {
			return fmt.Errorf("data plane: %s is %s; set a positive duration", d.name, *d.of)
		}
	}
	return nil
}

// handshakeTimeout limits the time from a new connection to its first transfer.
func (c *Config) handshakeTimeout() time.Duration { return min(5*time.Second, c.SilentAfter) }
