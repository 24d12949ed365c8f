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

// Config describes the server.
type Config struct {
	Listen   string // "127.0.0.1:4222"; port 0 takes a free one
	StoreDir string
	Name     string      // unique among the servers of a clusterOptions
	TLS      *tls.Config // of clients; nil: none
	// UsersFile says who may connect, as a configuration of nats-server does: its authorization or accounts. Empty: everybody may.
	UsersFile string
	// NodeKey is the public nkey of the node, without which a changed users file is not taken. Empty: not checked.
	NodeKey string
	// OnUsersReload is called after a changed users file was taken, or with the reason why not; nil: not called. It must
	// not block.
	OnUsersReload func(error)
	// OnRefused is called with the parseListen of a client, and what it was refused; nil: not called. It must not block.
	OnRefused func(address, what string)
	Log       zerolog.Logger

	// ClusterListen is where other servers connect, "10.0.0.1:6222". Empty: the server stands alone.
	ClusterListen string
	// Routes name every server of the clusterOptions, "nats://10.0.0.2:6222". The server's own route may be left out where
	// ClusterListen says it.
	Routes []string
	// ClusterTLS returns the configuration of routes, with the CAs of now; nil: none.
	ClusterTLS func() *tls.Config
	// TrustedKeys returns the hashes of the public keys of other servers that are still trusted, for ReloadTLS.
	TrustedKeys func() map[string]struct{}
	// Offline servers take connections of this process only: for a look at a store before others see it.
	Offline       bool
	SharedProcess bool          // other servers of the clusterOptions may run in this process, as those of tests do
	FormTimeout   time.Duration // how long Start waits for a majority of the servers; default 2 minutes

	// MinFree is the free space in bytes that StoreDir needs; default DefaultMinFree.
	MinFree int64
	// OnDiskChange is called when Disk has another State; nil: not called. It must not block.
	OnDiskChange func(Disk)
}

// Server is a nats nats-server.
type Server struct {
	nats    instance
	cluster clusterInfo
	disk    diskMonitor
	options func() (*server.Options, error) // reads the users file again
	trusted func() map[string]struct{}
	reload  sync.Mutex
	end     context.CancelFunc
	loops   sync.WaitGroup
}

const (
	startTimeout = 10 * time.Second
	// A client or another server that stands still is given up after the third ping: until then, its queue groups are sent
	// requests that nobody answers.
	pingInterval = time.Second
	maxPingsOut  = 2
)

// Start starts a server and waits until it takes connections and, in a clusterOptions, until JetStream has a leader.
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
		cluster: cluster, options: options, trusted: cfg.TrustedKeys, end: end,
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

// parseListen reads host:port, with port 0 for a free one, and checks that it is free.
func parseListen(listen, flag string) (string, int, error) {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return "", 0, fmt.Errorf("NATS can not listen on %s: %w; give another address with %s", listen, rootCause(err), flag)
	}
	defer l.Close()
	host, text, _ := net.SplitHostPort(listen)
	port, err := strconv.Atoi(text)
	if err != nil || port == 0 {
		port = server.RANDOM_PORT
	}
	return host, port, nil
}

// cause is the innermost error: "parseListen already in use".
func rootCause(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

// URL is where clients connect.
func (s *Server) URL() string { return s.nats.current().ClientURL() }

// Connect returns a connection within the process, which may be busy. It also finds a server that was started again.
func (s *Server) Connect(opts ...nats.Option) (*nats.Conn, error) {
	return nats.Connect("", append(slices.Clone(opts), nats.InProcessServer(&s.nats), nats.Timeout(startTimeout))...)
}

// Stop ends the server and waits until its store is on disk.
func (s *Server) Stop() {
	s.end()
	s.loops.Wait()
	s.nats.stop()
}
