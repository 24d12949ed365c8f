package link

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
	"github.com/asynkron/protoactor-go/remote"
	"github.com/rs/zerolog"
	"google.golang.org/grpc"

	"troupe/actors/supervise"
)

// Config describes the link of one node.
type Config struct {
	// System must not have spawned an actor that other nodes reach, since a PID carries the
	// address.
	System *actor.ActorSystem
	Listen string // host:port; port 0 picks a free one
	// Advertise is the host:port that other nodes dial. Port 0 means the port of the listener;
	// empty means Listen.
	Advertise string
	Provider  cluster.ClusterProvider
	Lookup    cluster.IdentityLookup
	// ServerTLS and ClientTLS enable TLS between nodes; if both are nil, connections are plain.
	// ServerTLS.ClientAuth decides which clients may connect. ClientTLS returns the configuration
	// of a dialled connection.
	ServerTLS *tls.Config
	ClientTLS func(net.Conn) *tls.Config
	Log       zerolog.Logger
	Runtime   supervise.Runtime // nil: that of System
}

func (c *Config) validate() error {
	switch {
	case c.System == nil || c.Provider == nil || c.Lookup == nil:
		return errors.New("link: System, Provider and Lookup are required")
	case (c.ServerTLS == nil) != (c.ClientTLS == nil):
		return errors.New("link: ServerTLS and ClientTLS must be set together: set both or neither")
	}
	return nil
}

// Link connects an actor system with those of other nodes.
type Link struct {
	cfg           Config
	cluster       *cluster.Cluster
	guard         *guard
	peers         peers
	pending       *pending
	brokenStreams brokenStreams
	refused       zerolog.Logger // rate-limited
	broken        zerolog.Logger // rate-limited
	server        *grpc.Server
	stop          sync.Once

	endpoints endpoints
	watchers  watches        // watches by actors of other nodes on actors of this one
	running   sync.WaitGroup // goroutines of the server and of streams
}

// flushTimeout limits how long Stop waits for peers to read what was sent to them.
const flushTimeout = 300 * time.Millisecond

// Start listens and joins the cluster through the provider. Afterwards System.Address() is the
// address of this node's actors. Other nodes become reachable when SetMembers names them. On
// failure nothing is left running.
func Start(ctx context.Context, cfg Config) (*Link, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.Runtime == nil {
		cfg.Runtime = supervise.RuntimeOf(cfg.System)
	}
	l := &Link{
		cfg: cfg, pending: newPending(cfg.System), brokenStreams: newBrokenStreams(), endpoints: newEndpoints(),
		refused: cfg.Log.Sample(&zerolog.BurstSampler{Burst: 5, Period: 10 * time.Second}),
		broken:  cfg.Log.Sample(&zerolog.BurstSampler{Burst: 5, Period: 10 * time.Second}),
	}
	l.guard = newGuard(l)
	listener, err := l.listen(ctx)
	if err != nil {
		return nil, err
	}
	l.subscribe()
	l.serve(listener)

	// As cluster.StartMember does, but without gossip and without its final sleep of a second.
	l.cluster.IdentityLookup = cfg.Lookup
	cfg.Lookup.Setup(l.cluster, l.cluster.GetClusterKinds(), false)
	if err := cfg.Provider.StartMember(l.cluster); err != nil {
		l.disconnect(ctx)
		return nil, fmt.Errorf("link: join the cluster as %s: %w", cfg.System.Address(), err)
	}
	return l, nil
}

// subscribe handles the loss of an address, which protoactor's member list publishes too.
func (l *Link) subscribe() {
	l.cfg.System.EventStream.Subscribe(func(event any) {
		if e, ok := event.(*remote.EndpointTerminatedEvent); ok {
			l.endpoints.release(e.Address)
			l.failRequests(e.Address)
			l.failWatches(e.Address)
			l.dropWatchers(e.Address)
		}
	})
}

// SetMembers sets the addresses of the live members. For a member that has left, its connections
// end, its watchers receive Terminated, and requests to it fail.
func (l *Link) SetMembers(addresses []string) {
	left, streams := l.peers.set(addresses)
	for _, in := range streams {
		in.disconnect()
	}
	for _, address := range left {
		l.terminate(address)
		for _, s := range l.endpoints.byAddress(address) {
			s.cut(errNoMember)
		}
	}
}

// terminate publishes the loss of an address. Posted messages are still written or answered.
func (l *Link) terminate(address string) {
	l.cfg.System.EventStream.Publish(&remote.EndpointTerminatedEvent{Address: address})
}

// Stop leaves the cluster, gives peers flushTimeout to read what was sent to them, and closes all
// connections. It does not stop the actor system.
func (l *Link) Stop(ctx context.Context) {
	l.stop.Do(func() {
		if err := l.cfg.Provider.Shutdown(true); err != nil {
			l.cfg.Log.Warn().Err(err).Msg("could not leave the cluster; peers will detect it")
		}
		l.disconnect(ctx)
	})
}

// goRun runs f in a goroutine that Stop waits for.
func (l *Link) goRun(f func()) { supervise.GoIn(l.cfg.Runtime, &l.running, f) }

func (l *Link) disconnect(ctx context.Context) {
	l.cfg.Lookup.Shutdown()
	written := l.endpoints.close()
	// terminate only now: every waiting future has posted already, or the guard answers it
	for _, address := range l.peers.close() {
		l.terminate(address)
	}
	ctx, cancel := l.cfg.Runtime.WithTimeout(ctx, flushTimeout)
	defer cancel()
	select {
	case <-written:
	case <-ctx.Done():
	}
	for _, s := range l.endpoints.byAddress("") {
		s.cut(errNoMember)
	}
	l.server.Stop()
	l.running.Wait()
}
