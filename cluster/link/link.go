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
)

// Config describes the link of one node.
type Config struct {
	System    *actor.ActorSystem // has spawned nothing yet that other nodes are to reach: a PID carries the address
	Listen    string             // host:port; port 0 takes a free one
	Advertise string             // host:port told to others, port 0 for the one listened on; default: what it listens on
	Provider  cluster.ClusterProvider
	Lookup    cluster.IdentityLookup
	ServerTLS *tls.Config                // with ClientTLS: TLS between nodes; its ClientAuth decides who may connect. Both nil: plain
	ClientTLS func(net.Conn) *tls.Config // of a connection that was dialled
	Log       zerolog.Logger
}

func (c *Config) validate() error {
	switch {
	case c.System == nil || c.Provider == nil || c.Lookup == nil:
		return errors.New("link: System, Provider and Lookup must be given")
	case (c.ServerTLS == nil) != (c.ClientTLS == nil):
		return errors.New("link: ServerTLS and ClientTLS go together: give both or none")
	}
	return nil
}

// Link connects an actor system with those of other nodes.
type Link struct {
	cfg     Config
	cluster *cluster.Cluster
	guard   *guard
	roster  roster
	pending *pending
	losses  losses
	refused zerolog.Logger // limited in rate
	broken  zerolog.Logger // likewise
	server  *grpc.Server
	stop    sync.Once

	endpoints endpoints
	watchers  watches        // by actors of other nodes, of actors of this one
	running   sync.WaitGroup // goroutines of the server and of streams
}

// stopWithin is how long Stop lets peers read what was sent to them.
const stopWithin = 300 * time.Millisecond

// Start listens, and joins through the provider. After it, System.Address() is what other nodes reach its actors at; they are
// reached themselves as soon as SetMembers names them. When it fails, nothing is left running.
func Start(ctx context.Context, cfg Config) (*Link, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	l := &Link{
		cfg: cfg, pending: newPending(cfg.System), losses: newLosses(), endpoints: newEndpoints(),
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

	// As cluster.StartMember does, without gossip, and without the second that it sleeps at its end.
	l.cluster.IdentityLookup = cfg.Lookup
	cfg.Lookup.Setup(l.cluster, l.cluster.GetClusterKinds(), false)
	if err := cfg.Provider.StartMember(l.cluster); err != nil {
		l.disconnect(ctx)
		return nil, fmt.Errorf("link: join the cluster as %s: %w", cfg.System.Address(), err)
	}
	return l, nil
}

// subscribe ends what goes to an address that is lost. Protoactor's member list says so too.
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

// Cluster is protoactor's view of it.
func (l *Link) Cluster() *cluster.Cluster { return l.cluster }

// SetMembers says who lives now. Whoever was there before and is not any more has left: its connections end, its watchers get
// Terminated, requests to it fail.
func (l *Link) SetMembers(addresses []string) {
	left, streams := l.roster.set(addresses)
	for _, in := range streams {
		in.expel()
	}
	for _, address := range left {
		l.terminate(address)
		for _, s := range l.endpoints.of(address) {
			s.cut(errNoMember)
		}
	}
}

// terminate tells whoever waits for an address that it is lost. What was posted there is sent or answered.
func (l *Link) terminate(address string) {
	l.cfg.System.EventStream.Publish(&remote.EndpointTerminatedEvent{Address: address})
}

// Stop leaves the cluster, lets peers read what was sent to them for a moment, and ends all connections. The actor system is
// its owner's.
func (l *Link) Stop(ctx context.Context) {
	l.stop.Do(func() {
		if err := l.cfg.Provider.Shutdown(true); err != nil {
			l.cfg.Log.Warn().Err(err).Msg("could not leave the cluster; the others will notice")
		}
		l.disconnect(ctx)
	})
}

func (l *Link) disconnect(ctx context.Context) {
	l.cfg.Lookup.Shutdown()
	written := l.endpoints.close()
	for _, address := range l.roster.close() { // after that: whoever waits has posted, or is answered by the guard
		l.terminate(address)
	}
	ctx, cancel := context.WithTimeout(ctx, stopWithin)
	defer cancel()
	select {
	case <-written:
	case <-ctx.Done():
	}
	for _, s := range l.endpoints.of("") {
		s.cut(errNoMember)
	}
	l.server.Stop()
	l.running.Wait()
}
