package cluster

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"regexp"
)

// Server is a stock nats-server with JetStream, over all its lives at one address.
type Server struct {
	host   *Host
	dir    string
	listen string
	starts int
	proc   *Process
}

var serverLine = regexp.MustCompile(`Listening for client connections on (\S+)`)

// serverReady is the last line of its start: JetStream answers, and not only the port.
var serverReady = regexp.MustCompile(`Server is ready`)

// NewServer is a server on loopback, which keeps its data and logs in dir.
func NewServer(dir string) *Server { return newServer(loopback, dir) }

func newServer(host *Host, dir string) *Server {
	port := natsPort
	if host == loopback {
		port = "-1" // nats-server's word for a free one
	}
	return &Server{host: host, dir: dir, listen: net.JoinHostPort(host.Addr.String(), port)}
}

// Start begins the server's next life and waits until it is ready.
func (s *Server) Start(ctx context.Context) error {
	bin, err := build(natsPackage)
	if err != nil {
		return err
	}
	if s.proc != nil && !s.proc.Ended() {
		return fmt.Errorf("nats-server runs already")
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
	at, err := s.proc.waitForOutput(ctx, serverLine)
	if err != nil {
		return err
	}
	s.listen = at[1]
	_, err = s.proc.waitForOutput(ctx, serverReady)
	return err
}

// URL is where clients connect.
func (s *Server) URL() string { return "nats://" + s.listen }

// Process is the server's present life, or its last.
func (s *Server) Process() *Process { return s.proc }

// Close ends the server, if it runs.
func (s *Server) Close() { s.proc.close() }
