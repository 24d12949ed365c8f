package cluster

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"regexp"
)

// Server is a stock nats-server with JetStream. It keeps its address across restarts.
type Server struct {
	host   *Host
	dir    string
	listen string
	starts int
	proc   *Process
}

var serverLine = regexp.MustCompile(`Listening for client connections on (\S+)`)

// serverReady is the last line of the server's start. JetStream answers after it, which it may not
// when the port opens.
var serverReady = regexp.MustCompile(`Server is ready`)

// NewServer returns a server on loopback that keeps its data and logs in dir.
func NewServer(dir string) *Server { return newServer(loopback, dir) }

func newServer(host *Host, dir string) *Server {
	port := natsPort
	if host == loopback {
		port = "-1" // lets nats-server choose a free port
	}
	return &Server{host: host, dir: dir, listen: net.JoinHostPort(host.Addr.String(), port)}
}

// Start starts the server and waits until it is ready.
func (s *Server) Start(ctx context.Context) error {
	bin, err := build(natsPackage)
	if err != nil {
		return err
	}
	if s.proc != nil && !s.proc.Ended() {
		return fmt.Errorf("nats-server is already running")
	}
	host, port, err := net.SplitHostPort(s.listen)
	if err != nil {
		return err
	}
	s.starts++
	log := filepath.Join(s.dir, fmt.Sprintf("nats.%d.log", s.starts))
	if s.proc, err = start(s.host, "nats-server", log, bin,
		"--jetstream", "--store_dir", filepath.Join(s.dir, "nats"), "--addr", host, "--port", port); err != nil {
		return err
	}
	match, err := s.proc.waitForOutput(ctx, serverLine)
	if err != nil {
		return err
	}
	s.listen = match[1]
	_, err = s.proc.waitForOutput(ctx, serverReady)
	return err
}

// URL returns the URL for clients.
func (s *Server) URL() string { return "nats://" + s.listen }

// Process returns the current process, or the last one.
func (s *Server) Process() *Process { return s.proc }

// Close kills the server if it runs.
func (s *Server) Close() { s.proc.close() }
