package link_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
	"github.com/asynkron/protoactor-go/remote"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"troupe/cluster/link"
	"troupe/messages"
	"troupe/testkit"
	"troupe/testkit/clock"
)

// timeout limits every request in these tests; it allows for a slow machine.
const timeout = time.Minute

// stubProvider is a provider for tests that set the members of each link themselves.
type stubProvider struct{ err error }

func (t stubProvider) StartMember(*cluster.Cluster) error { return t.err }
func (stubProvider) StartClient(*cluster.Cluster) error   { return nil }
func (stubProvider) Shutdown(bool) error                  { return nil }

// stubLookup finds no identities.
type stubLookup struct{}

func (stubLookup) Get(*cluster.ClusterIdentity) *actor.PID        { return nil }
func (stubLookup) RemovePid(*cluster.ClusterIdentity, *actor.PID) {}
func (stubLookup) Setup(*cluster.Cluster, []string, bool)         {}
func (stubLookup) Shutdown()                                      {}

// node is an actor system with a link. The sockets are real, because broken, stalled and orphaned
// connections are what the tests are about.
type node struct {
	*actor.ActorSystem
	link *link.Link
}

func config(sys *actor.ActorSystem) link.Config {
	return link.Config{
		System:   sys,
		Listen:   "127.0.0.1:0",
		Provider: stubProvider{},
		Lookup:   stubLookup{},
		Log:      zerolog.Nop(),
		Runtime:  clock.New(),
	}
}

// at makes a node use a clock that the test advances, so that pings time out. Without it, time stands
// still, and no connection is lost because the machine is slow.
func at(later *clock.Clock) func(*link.Config) {
	return func(c *link.Config) { c.Runtime = later }
}

// advanceUntil advances the clock of a node whose peer is silent. Its pings time out meanwhile.
func advanceUntil(t testing.TB, later *clock.Clock, what string, ok func() bool) {
	t.Helper()
	testkit.Until(t, what, func() bool { later.Advance(link.PingInterval); return ok() })
}

func start(t testing.TB, change ...func(*link.Config)) *node {
	t.Helper()
	sys := testkit.System(t)
	cfg := config(sys)
	for _, c := range change {
		c(&cfg)
	}
	l, err := link.Start(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Stop(context.Background()) })
	return &node{ActorSystem: sys, link: l}
}

// join makes the nodes members of each other's links.
func join(nodes ...*node) {
	var all []string
	for _, n := range nodes {
		all = append(all, n.Address())
	}
	for _, n := range nodes {
		n.link.SetMembers(all)
	}
}

// echo starts an actor that answers GetSequence and returns its PID as other nodes see it.
func (n *node) echo(t testing.TB) (*testkit.Peer, *actor.PID) {
	t.Helper()
	p := testkit.NewPeer(t, n.ActorSystem, "echo", func(m proto.Message) proto.Message {
		if get, ok := m.(*messages.GetSequence); ok {
			return &messages.SequenceStatus{RequestId: get.GetRequestId(), Known: true}
		}
		return nil
	})
	return p, n.pid("echo")
}

func (n *node) pid(id string) *actor.PID { return actor.NewPID(n.Address(), id) }

// ask sends to a new PID, since a used one caches the actor system that used it.
func (n *node) ask(to *actor.PID, id string) actor.Future {
	return n.Root.RequestFuture(actor.NewPID(to.Address, to.Id), &messages.GetSequence{RequestId: id}, timeout)
}

// waitReachable waits until an echo answers, or fails the test.
func (n *node) waitReachable(t testing.TB, to *actor.PID) {
	t.Helper()
	testkit.Until(t, "an answer of "+to.String(), func() bool {
		answer, err := n.ask(to, "r").Result()
		status, ok := answer.(*messages.SequenceStatus)
		return err == nil && ok && status.GetKnown() && status.GetRequestId() == "r"
	})
}

// ended returns a channel that is closed when a request has ended.
func ended(f actor.Future) <-chan struct{} {
	done := make(chan struct{})
	go func() { defer close(done); _ = f.Wait() }()
	return done
}

// isClosed reports whether a channel without values is closed.
func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// lost returns a channel that receives the addresses whose connections a node considers lost.
func (n *node) lost() <-chan string {
	lost := make(chan string, 64)
	n.EventStream.Subscribe(func(event any) {
		if e, ok := event.(*remote.EndpointTerminatedEvent); ok {
			lost <- e.Address
		}
	})
	return lost
}

// wantDeadLetter fails the test unless the future ends with a dead letter.
func wantDeadLetter(t testing.TB, f actor.Future) {
	t.Helper()
	if answer, err := f.Result(); !errors.Is(err, actor.ErrDeadLetter) {
		t.Errorf("got %v, %v, want a dead letter", answer, err)
	}
}

// watch makes a new actor watch another and returns the channel of its Terminated messages. The
// watch has been sent when watch returns.
func (n *node) watch(t testing.TB, who *actor.PID) <-chan *actor.Terminated {
	t.Helper()
	seen, sent := make(chan *actor.Terminated, 8), make(chan struct{})
	pid := n.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		switch m := ctx.Message().(type) {
		case *actor.Started:
			ctx.Watch(who)
			close(sent)
		case *actor.Terminated:
			seen <- m
		}
	}))
	t.Cleanup(func() { _ = n.Root.StopFuture(pid).Wait() })
	<-sent
	return seen
}

func terminated(t testing.TB, seen <-chan *actor.Terminated) actor.TerminatedReason {
	t.Helper()
	testkit.Until(t, "notification of the watcher", func() bool { return len(seen) > 0 })
	return (<-seen).Why
}

// proxy forwards connections to a node that advertises the proxy's address.
type proxy struct {
	listener net.Listener
	target   func() string
	mu       sync.Mutex
	conns    map[net.Conn]bool // of both sides
	callers  map[net.Conn]bool
	stalled  chan struct{}     // nil unless the proxy is stalled; closed by resume
	orphans  map[net.Conn]bool // connections of callers whose writes are dropped without an error
	wg       sync.WaitGroup
}

// startBehindProxy starts a node that others reach through a proxy.
func startBehindProxy(t testing.TB, change ...func(*link.Config)) (*node, *proxy) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := start(t, append(change, func(c *link.Config) { c.Advertise = l.Addr().String() })...)
	p := &proxy{listener: l, conns: map[net.Conn]bool{}, callers: map[net.Conn]bool{}}
	p.target = n.link.OwnAddress
	p.wg.Go(p.serve)
	t.Cleanup(func() { _ = l.Close(); p.resume(); p.cut(); p.wg.Wait() })
	return n, p
}

// accepted returns the number of connections accepted so far.
func (p *proxy) accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.callers)
}

func (p *proxy) serve() {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", p.target())
		if err != nil {
			_ = in.Close()
			continue
		}
		p.mu.Lock()
		p.conns[in], p.conns[out], p.callers[in] = true, true, true
		p.mu.Unlock()
		p.wg.Go(func() { p.copy(in, out) })
		p.wg.Go(func() { p.copy(out, in) })
	}
}

func (p *proxy) copy(to, from net.Conn) {
	defer func() {
		if !p.orphaned(to) {
			_ = to.Close()
		}
	}()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		stalled := p.stalled
		p.mu.Unlock()
		if stalled != nil {
			<-stalled
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil && !p.orphaned(from) {
				return
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				_ = from.Close()
			}
			return
		}
	}
}

// cut closes all connections; new ones are accepted.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
	clear(p.conns)
}

// orphan closes all connections on the side of the node behind the proxy only.
func (p *proxy) orphan() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.orphans = maps.Clone(p.callers)
	for c := range p.conns {
		if !p.orphans[c] {
			_ = c.Close()
		}
	}
}

func (p *proxy) orphaned(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.orphans[c]
}

// stall blocks all traffic in both directions, on old connections and new ones.
func (p *proxy) stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stalled = make(chan struct{})
}

func (p *proxy) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stalled != nil {
		close(p.stalled)
		p.stalled = nil
	}
}
