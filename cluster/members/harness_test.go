package members

import (
	"context"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"troupe/cluster/bucket"
	"troupe/cluster/natsd"
	"troupe/messages"
	"troupe/testkit"
	"troupe/testkit/clock"
)

func TestMain(m *testing.M) {
	if cfg := os.Getenv(childConfig); cfg != "" {
		runChild(cfg)
		return
	}
	// The nats-server keeps these goroutines for the life of the process.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*ipQueue[...]).pop"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.expirePerSecond"))
}

// natsServer is a nats-server that can be stopped, wiped and restarted at the same address, and the
// nodes that use it. It is a real one, because compare-and-swap, lost buckets and reconnections are
// what the tests are about. Only its answers take time: the nodes have a clock that the test advances.
type natsServer struct {
	t      testing.TB
	dir    string
	listen string
	server *natsd.Server
	clock  *clock.Clock // nil: the nodes run in real time
	nodes  []*node
}

func startServer(t testing.TB) *natsServer {
	t.Helper()
	s := startInRealTime(t)
	s.clock = clock.New()
	return s
}

// startInRealTime returns a server for nodes that run in real time, which benchmarks measure.
func startInRealTime(t testing.TB) *natsServer {
	t.Helper()
	s := &natsServer{t: t, dir: t.TempDir(), listen: "127.0.0.1:0"}
	s.start()
	s.listen = strings.TrimPrefix(s.server.URL(), "nats://")
	t.Cleanup(func() { s.server.Stop() })
	return s
}

func (s *natsServer) start() {
	s.t.Helper()
	var err error
	s.server, err = natsd.Start(
		context.Background(),
		natsd.Config{Listen: s.listen, StoreDir: s.dir, Name: "test", Log: zerolog.Nop()},
	)
	if err != nil {
		s.t.Fatal(err)
	}
}

// stop stops the server while no request is in flight, and waits until all nodes have noticed.
func (s *natsServer) stop() {
	s.t.Helper()
	s.settle()
	s.server.Stop()
	for _, n := range s.active() {
		testkit.Until(s.t, n.cfg.Name+" is disconnected", func() bool { return !n.conn.IsConnected() })
	}
}

// resume starts the server again and waits until all nodes are connected.
func (s *natsServer) resume() {
	s.t.Helper()
	s.clock.Advance(time.Millisecond)
	stopped := s.clock.Now().Add(-time.Nanosecond)
	s.start()
	for _, n := range s.active() {
		testkit.Until(s.t, n.cfg.Name+" is connected", func() bool { return n.connectedSince(stopped) })
	}
}

func (s *natsServer) restart(wipe bool) {
	s.t.Helper()
	s.stop()
	if wipe {
		if err := os.RemoveAll(s.dir); err != nil {
			s.t.Fatal(err)
		}
	}
	s.resume()
}

// node is one member of a test and the changes that it received.
type node struct {
	*Members
	server  *natsServer
	conn    *nats.Conn
	address string    // accepts connections, so that the silence of the node alone shows its death
	time    *nodeTime // nil in real time
	apart   bool      // stopped or cut off: the clock advances without waiting for it

	mu      sync.Mutex
	changes []Change
	closed  bool
}

// open opens a node that has not joined.
func (s *natsServer) open(name string, change func(*Config)) *node {
	s.t.Helper()
	conn, err := nats.Connect("nats://"+s.listen, natsd.ClientOptions(name, zerolog.Nop())...)
	if err != nil {
		s.t.Fatal(err)
	}
	client, err := bucket.NewClient(conn, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	cfg := Config{
		Name:     name,
		Instance: "instance of " + name,
		Log:      zerolog.New(zerolog.NewTestWriter(s.t)).With().Str("node", name).Logger(),
	}
	n := &node{server: s, conn: conn}
	if s.clock != nil {
		n.time = &nodeTime{Clock: s.clock, conn: conn, requests: map[*request]struct{}{}}
		cfg.Runtime = n.time
	}
	if change != nil {
		change(&cfg)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = listener.Close() })
	n.address = listener.Addr().String()
	if n.Members, err = Open(s.t.Context(), client, cfg); err != nil {
		s.t.Fatal(err)
	}
	s.nodes = append(s.nodes, n)
	n.Subscribe(func(c Change) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.changes = append(n.changes, c)
	})
	s.t.Cleanup(n.crash)
	return n
}

func (s *natsServer) join(name string) *node {
	s.t.Helper()
	n := s.open(name, nil)
	if err := n.join(s.t); err != nil {
		s.t.Fatal(err)
	}
	return n
}

// joinAll returns nodes that know each other.
func (s *natsServer) joinAll(names ...string) []*node {
	s.t.Helper()
	var all []*node
	for _, name := range names {
		all = append(all, s.join(name))
	}
	for _, n := range all {
		n.until("knows all", func() bool { return n.knows(names...) })
	}
	return all
}

// joinVigilant returns nodes that know each other and can suspect each other, after Config.Grace.
func (s *natsServer) joinVigilant(names ...string) []*node {
	s.t.Helper()
	all := s.joinAll(names...)
	for _, n := range all {
		n.until("can suspect others", n.canSuspect)
	}
	return all
}

func (n *node) canSuspect() bool {
	n.Members.mu.Lock()
	defer n.Members.mu.Unlock()
	return n.health.canSuspect(n.now())
}

// connectedSince reports whether the node noticed a reconnection after t.
func (n *node) connectedSince(t time.Time) bool {
	n.Members.mu.Lock()
	defer n.Members.mu.Unlock()
	return n.health.lastDisconnect.After(t)
}

// crash ends the node without writing anything, like a killed process.
func (n *node) crash() {
	if !n.closed {
		n.closed = true
		n.Close()
		n.conn.Close()
	}
}

func (n *node) knows(names ...string) bool {
	var live []string
	for _, m := range n.Live() {
		live = append(live, m.GetName())
	}
	return slices.Equal(live, names)
}

func (n *node) received(what func(Change) bool) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.ContainsFunc(n.changes, what)
}

func (n *node) until(what string, ok func() bool) {
	n.server.t.Helper()
	n.server.until(n.cfg.Name+": "+what, ok)
}

func left(name string) func(Change) bool {
	return func(c Change) bool {
		return slices.ContainsFunc(c.Left, func(m *messages.Member) bool { return m.GetName() == name })
	}
}

// memberAt returns the live member with an address.
func memberAt(m *Members, address string) (*messages.Member, bool) {
	all := m.Live()
	i := slices.IndexFunc(all, func(one *messages.Member) bool { return one.GetAddress() == address })
	if i < 0 {
		return nil, false
	}
	return all[i], true
}
