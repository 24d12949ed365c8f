package bulk

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/rs/zerolog"
)

// MaxChunkBytes is the largest chunk that a transfer may have.
const MaxChunkBytes = 16 << 20

const (
	maxConnections = 1024 // from other nodes
	maxStreams     = 4096 // open on one connection
)

// Errors of Send that callers branch on.
var (
	ErrRefused  = errors.New("transfer refused")                 // not known there, or not any more, or the wrong token
	ErrSink     = errors.New("the receiver could not take it")   // put failed; the text is its error's
	ErrChecksum = errors.New("a chunk was damaged on every try") // of a bounded number
	ErrClosed   = errors.New("the data plane of this node is closed")
)

// Config describes the data plane of a node.
type Config struct {
	Listen    string // host:port; port 0 takes a free one. Default 127.0.0.1:0
	Advertise string // host:port where others reach it; port 0 is the one listened on. Default: where it listens

	ServerTLS *tls.Config                // for connections from others; nil: plain TCP
	ClientTLS func(net.Conn) *tls.Config // for a connection to another; nil: plain TCP

	Window      int           // bytes that a peer may have in flight to this node. Default 32 MiB
	ExpireAfter time.Duration // a transfer of which no chunk has come for so long is ended. Default 60 s
	SinkTimeout time.Duration // a put that takes longer fails its transfer. Default 30 s
	IdleAfter   time.Duration // a connection without a transfer for so long is closed. Default 60 s
	SilentAfter time.Duration // a peer that owes an answer, and gives no sign of life, is taken for lost. Default 15 s

	Log zerolog.Logger
}

// Validate fills in defaults.
func (c *Config) Validate() error {
	if c.Listen == "" {
		c.Listen = "127.0.0.1:0"
	}
	if c.Window == 0 {
		c.Window = 32 << 20
	}
	if c.Window < 64<<10 || c.Window > 1<<30 {
		return fmt.Errorf("data plane: a window of %d bytes; give 64 KiB to 1 GiB", c.Window)
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
			return fmt.Errorf("data plane: %s is %s; give more than 0", d.name, *d.of)
		}
	}
	return nil
}

// handshakeWithin is how long a new connection may take until it has opened a transfer.
func (c *Config) handshakeWithin() time.Duration { return min(5*time.Second, c.SilentAfter) }
