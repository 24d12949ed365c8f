package bus

import (
	"context"
	"sync"

	"github.com/nats-io/nats.go"

	"troupe/cluster/backup"
	"troupe/cluster/natsd"
	"troupe/cluster/recovery"
	"troupe/cluster/reply"
	"troupe/node/steps"
)

// Bus is a connection to NATS, and the embedded server if the node runs one.
type Bus struct {
	cfg       Config
	server    *natsd.Server // nil: the node uses the servers of Config.Join
	conn      *nats.Conn
	inboxes   inboxes
	storeCopy *backup.State
	endWatch  func() // ends the watch of certificates

	mu      sync.Mutex
	publish func(kind, subject, detail string) // nil until PublishTo
}

// Open connects to NATS. It starts the embedded server if there are no servers to join.
func Open(ctx context.Context, cfg Config) (_ *Bus, err error) {
	b := &Bus{cfg: cfg, endWatch: func() {}}
	b.inboxes.guard = reply.NewGuard(reply.Rule{}, cfg.Registry, cfg.Log)
	if err := b.readUsers(); err != nil {
		return nil, err
	}
	if b.storeCopy, err = recovery.Load(cfg.DataDir, cfg.Log); err != nil {
		return nil, err
	}
	opts := natsd.ClientOptions("troupe node "+cfg.Node, cfg.Log)
	login, err := cfg.Login.Options()
	if err != nil {
		return nil, err
	}
	opts = append(opts, login...)
	if len(cfg.Join) > 0 {
		b.conn, err = dial(ctx, cfg, opts)
	} else {
		err = b.serve(ctx, opts)
	}
	if err != nil {
		return nil, err
	}
	if cfg.TLS != nil {
		b.endWatch = steps.Background(cfg.Runtime, b.watchTLS)
	}
	return b, nil
}

// watchTLS follows changes of CAs and of revoked certificates.
func (b *Bus) watchTLS(ctx context.Context) {
	b.cfg.TLS.Watch(ctx, func() error {
		if b.server == nil {
			return nil
		}
		return b.server.ReloadTLS()
	})
}

// Conn returns the connection.
func (b *Bus) Conn() *nats.Conn { return b.conn }

// Guard returns the guard of all requests over NATS.
func (b *Bus) Guard() *reply.Guard { return b.inboxes.guard }

// StoreCopy returns the copy of the desired state that was in the data folder at the start.
func (b *Bus) StoreCopy() *backup.State { return b.storeCopy }

// ServerURL returns the URL of the embedded server, or "" if there is none.
func (b *Bus) ServerURL() string {
	if b.server == nil {
		return ""
	}
	return b.server.URL()
}

// URL returns the URL for NATS clients.
func (b *Bus) URL() string {
	if b.server == nil {
		return b.conn.ConnectedUrlRedacted()
	}
	return b.server.URL()
}

// Close closes the connection and stops the embedded server.
func (b *Bus) Close() {
	b.endWatch()
	b.conn.Close()
	if b.server != nil {
		b.server.Stop()
	}
}
