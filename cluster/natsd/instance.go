package natsd

import (
	"fmt"
	"net"
	"sync/atomic"

	"github.com/nats-io/nats-server/v2/server"
)

// instance is the nats-server of this process, which can be started again on the same ports. Connections within the
// process are made to the server of the moment.
type instance struct {
	options func() (*server.Options, error)
	log     *logger
	server  atomic.Pointer[server.Server]
	hung    atomic.Pointer[server.Server] // did not start, and may never stop
	ports   ports
}

// ports are those that the first start took.
type ports struct{ client, cluster int }

// now returns the server of the moment, nil before the first start.
func (r *instance) current() *server.Server { return r.server.Load() }

// start starts a server and returns once it takes connections and has JetStream. The error is ErrStore where its files
// are the reason.
func (r *instance) start() error {
	opts, err := r.options()
	if err != nil {
		return err
	}
	if r.ports.client != 0 {
		opts.Port = r.ports.client
	}
	if r.ports.cluster != 0 {
		opts.Cluster.Port = r.ports.cluster
	}
	s, err := server.NewServer(opts)
	if err != nil {
		return fmt.Errorf("nats-server: %w", err)
	}
	r.server.Store(s)
	if err := r.run(s, opts.StoreDir); err != nil {
		return err
	}
	if at, ok := s.Addr().(*net.TCPAddr); ok {
		r.ports.client = at.Port
	}
	if at := s.ClusterAddr(); at != nil {
		r.ports.cluster = at.Port
	}
	return nil
}

// stop ends the server and waits until its store is on disk. A server that did not start is not waited for.
func (r *instance) stop() {
	if s := r.current(); s != nil && s != r.hung.Load() {
		s.Shutdown()
		s.WaitForShutdown()
	}
}

// InProcessConn implements nats.InProcessConnProvider.
func (r *instance) InProcessConn() (net.Conn, error) { return r.current().InProcessConn() }
