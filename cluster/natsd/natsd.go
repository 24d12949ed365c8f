package natsd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
)

// Config configures a server.
type Config struct {
	Listen   string // "127.0.0.1:4222"; port 0 chooses a free one
	StoreDir string
	Name     string      // unique among the servers of a cluster
	TLS      *tls.Config // for clients; nil disables TLS
	// UsersFile is a nats-server configuration file with the users: its authorization or accounts.
	// If empty, every client may connect.
	UsersFile string
	// NodeKey is the node's public nkey. A changed users file without it is rejected. If empty,
	// that is not checked.
	NodeKey string
	// OnUsersReload is called with nil after a changed users file was loaded, or with the error
	// that prevented it. It may be nil and must not block.
	OnUsersReload func(error)
	// OnRefused is called with the address of a client that was refused, and the reason. It may be
	// nil and must not block.
	OnRefused func(address, what string)
	Log       zerolog.Logger

	// ClusterListen is the address for routes from other servers, "10.0.0.1:6222". If empty, the
	// server is standalone.
	ClusterListen string
	// Routes are the routes of all servers of the cluster, "nats://10.0.0.2:6222". The server's own
	// route may be omitted if ClusterListen has its address.
	Routes []string
	// ClusterTLS returns the TLS configuration of routes with the current CAs; nil disables TLS.
	ClusterTLS func() *tls.Config
	// TrustedKeys returns the hashes of the public keys of other servers that are currently
	// trusted. ReloadTLS uses it.
	TrustedKeys func() map[string]struct{}
	// Offline makes the server accept in-process connections only, to inspect a store before others
	// see it.
	Offline       bool
	SharedProcess bool          // the process may run other servers of the cluster, as in tests
	FormTimeout   time.Duration // limit for Start to wait for a majority; default 2 minutes

	// MinFree is the free space in bytes that StoreDir needs; the default is DefaultMinFree.
	MinFree int64
	// OnDiskChange is called when the State of Disk changes. It may be nil and must not block.
	OnDiskChange func(Disk)
}

// Server is a running nats-server.
type Server struct {
	nats    instance
	cluster clusterInfo
	disk    diskMonitor
	options func() (*server.Options, error) // reads the users file each time
	trusted func() map[string]struct{}
	reload  sync.Mutex
	cancel  context.CancelFunc
	loops   sync.WaitGroup
}

const (
	startTimeout = 10 * time.Second
	// A client or server that stalls is disconnected after the third ping. Until then its queue
	// groups receive requests that get no answer.
	pingInterval = time.Second
	maxPingsOut  = 2
)

// Start starts a server and waits until it accepts connections and, in a cluster, until JetStream
// has a leader.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	host, port, err := parseListen(cfg.Listen, "--nats-listen")
	if err != nil {
		return nil, err
	}
	if err := cfg.checkWritable(); err != nil {
		return nil, err
	}
	cluster, others, err := cfg.clusterOptions()
	if err != nil {
		return nil, err
	}
	options := func() (*server.Options, error) {
		opts, err := LoadUsers(cfg.UsersFile)
		if err != nil {
			return nil, err
		}
		opts.ServerName, opts.Host, opts.Port, opts.NoSigs = cfg.Name, host, port, true
		opts.JetStream, opts.StoreDir = true, cfg.StoreDir
		opts.PingInterval, opts.MaxPingsOut = pingInterval, maxPingsOut
		opts.DontListen = cfg.Offline
		opts.TLSConfig, opts.TLS = cfg.TLS, cfg.TLS != nil
		opts.TLSVerify = cfg.TLS != nil && cfg.TLS.ClientAuth == tls.RequireAndVerifyClientCert
		others(opts)
		return opts, nil
	}
	life, end := context.WithCancel(context.Background())
	s := &Server{
		nats:    instance{options: options, log: newLogger(&cfg)},
		cluster: cluster, options: options, trusted: cfg.TrustedKeys, cancel: end,
	}
	steps := []func() error{
		s.nats.start,
		func() error { return s.waitFormed(ctx, cfg.Log) },
		func() error { return s.watchUsers(life, &cfg) },
		func() error { return s.watchDisk(life, &cfg) },
	}
	if cfg.Offline {
		steps = steps[:1]
	}
	for _, step := range steps {
		if err := step(); err != nil {
			s.Stop()
			return nil, err
		}
	}
	return s, nil
}

// parseListen parses host:port and checks that the address is free. Port 0 stands for a free port.
func parseListen(listen, flag string) (string, int, error) {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return "", 0, fmt.Errorf("NATS cannot listen on %s: %w; set another address with %s",
			listen, rootCause(err), flag)
	}
	defer l.Close()
	host, text, _ := net.SplitHostPort(listen)
	port, err := strconv.Atoi(text)
	if err != nil || port == 0 {
		port = server.RANDOM_PORT
	}
	return host, port, nil
}

// rootCause returns the innermost error, such as "address already in use".
func rootCause(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

// URL returns the URL for clients.
func (s *Server) URL() string { return s.nats.current().ClientURL() }

// Connect returns an in-process connection. It also reconnects to a server that was restarted. The
// timeout allows for a busy process.
func (s *Server) Connect(opts ...nats.Option) (*nats.Conn, error) {
	return nats.Connect("", append(slices.Clone(opts), nats.InProcessServer(&s.nats), nats.Timeout(startTimeout))...)
}

// Stop stops the server and waits until its store is on disk.
func (s *Server) Stop() {
	s.cancel()
	s.loops.Wait()
	s.nats.stop()
}
