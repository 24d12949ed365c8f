package natsd

import (
	"fmt"
	"net"
	"sync/atomic"

	"github.com/nats-io/nats-server/v2/server"
)

// instance is the nats-server of this process. It can be restarted on the same ports. In-process
// connections go to the current server.
type instance struct {
	options func() (*server.Options, error)
	log     *logger
	server  atomic.Pointer[server.Server]
	hung    atomic.Pointer[server.Server] // a server that did not start and may never stop
	ports   ports
}

// ports are the ports that the first start chose.
type ports struct{ client, cluster int }

// current returns the current server, or nil before the first start.
func (r *instance) current() *server.Server { return r.server.Load() }

// start starts a server and returns once it accepts connections and has JetStream. The error is
// ErrStore if the files of the store are the cause.
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
	if err := r.run(s, opts); err != nil {
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

// stop stops the server and waits until its store is on disk. It does not wait for a server that
// did not start.
func (r *instance) stop() {
	if s := r.current(); s != nil && s != r.hung.Load() {
		s.Shutdown()
		s.WaitForShutdown()
	}
}

// InProcessConn implements nats.InProcessConnProvider.
func (r *instance) InProcessConn() (net.Conn, error) { return r.current().InProcessConn() }
