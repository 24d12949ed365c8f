package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

// NATS selects the NATS servers of a cluster.
type NATS int

func (n NATS) String() string { return [...]string{"embedded", "routed", "external"}[n] }

// With Embedded the first node runs the server and the others join it. With Routed every node runs
// a server, and these form a NATS cluster. With External all nodes join a separate nats-server.
const (
	Embedded NATS = iota
	Routed
	External
)

// Config describes a cluster.
type Config struct {
	Dir      string // for data folders and logs; the caller removes it
	Nodes    int    // named n1, n2, and so on
	Devices  string // of each node; default host:1x256MiB
	NATS     NATS
	Isolated bool   // gives each node and an external server its own host; otherwise all use loopback
	Seed     uint64 // seed of packet losses
	Flags    []string
}

// natsHost is the name of the external server's host.
const natsHost = "nats"

// Cluster is a set of nodes and the network between them.
type Cluster struct {
	Nodes  []*Node
	Server *Server // nil unless NATS is External
	Fabric *Fabric // nil on loopback

	cfg     Config
	mu      sync.Mutex
	control *nats.Conn
}

// New starts a cluster. If it fails, it ends all processes that it has started.
func New(ctx context.Context, cfg Config) (_ *Cluster, err error) {
	if err := recordSources(); err != nil {
		return nil, err
	}
	if cfg.Devices == "" {
		cfg.Devices = "host:1x256MiB"
	}
	if (cfg.Nodes > 1 || cfg.NATS == External) && !HasFlag("--join") {
		return nil, ErrNoJoin
	}
	c := &Cluster{cfg: cfg}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s%w", c.Logs(20), err)
			c.Close()
		}
	}()
	if cfg.Isolated {
		if c.Fabric, err = NewFabric(cfg.Seed, c.hostNames()...); err != nil {
			return nil, err
		}
	}
	if cfg.NATS == External {
		c.Server = newServer(c.host(natsHost), cfg.Dir)
		if err := c.Server.Start(ctx); err != nil {
			return nil, err
		}
	}
	return c, c.startNodes(ctx)
}

// ErrNoJoin is returned if the build supports only single nodes.
var ErrNoJoin = errors.New("this build of the node has no --join flag; it cannot form a cluster")

func nodeName(i int) string { return fmt.Sprintf("n%d", i+1) }

func (c *Cluster) hostNames() []string {
	names := []string{natsHost}
	for i := range c.cfg.Nodes {
		names = append(names, nodeName(i))
	}
	return names
}

func (c *Cluster) host(name string) *Host {
	if c.Fabric == nil {
		return loopback
	}
	return c.Fabric.Host(name)
}

// startNodes starts the nodes. Nodes that join another one start one after the other. Routed nodes
// start together, since they wait for a majority.
func (c *Cluster) startNodes(ctx context.Context) error {
	routes, err := c.routes()
	if err != nil {
		return err
	}
	for i := range c.cfg.Nodes {
		flags := append([]string{"--devices", c.cfg.Devices}, c.cfg.Flags...)
		switch {
		case c.cfg.NATS == External:
			flags = append(flags, "--join", c.Server.URL())
		case c.cfg.NATS == Routed:
			flags = append(flags, "--nats-routes", strings.Join(routes, ","))
		case i > 0:
			flags = append(flags, "--join", "nats://"+c.Nodes[0].listen["--nats-listen"])
		}
		n := newNode(c.host(nodeName(i)), nodeName(i), c.cfg.Dir, flags...)
		if c.cfg.NATS == Routed {
			n.listen["--nats-cluster-listen"] = strings.TrimPrefix(routes[i], "nats://")
		}
		c.Nodes = append(c.Nodes, n)
		if c.cfg.NATS != Routed {
			if err := n.Start(ctx); err != nil {
				return err
			}
		}
	}
	if c.cfg.NATS != Routed {
		return nil
	}
	return forAll(c.Nodes, func(n *Node) error { return n.Start(ctx) })
}

// forAll calls do for all nodes concurrently.
func forAll(nodes []*Node, do func(*Node) error) error {
	failed := make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() { failed[i] = do(n) })
	}
	wg.Wait()
	return errors.Join(failed...)
}

// routes returns the route URLs of embedded servers, which must be known before the first one
// starts. On loopback these are ports that were free a moment ago.
func (c *Cluster) routes() ([]string, error) {
	if c.cfg.NATS != Routed {
		return nil, nil
	}
	var all []string
	for i := range c.cfg.Nodes {
		address := net.JoinHostPort(c.host(nodeName(i)).Addr.String(), natsRoutePort)
		if c.Fabric == nil {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return nil, err
			}
			defer l.Close()
			address = l.Addr().String()
		}
		all = append(all, "nats://"+address)
	}
	return all, nil
}

// Node returns a node by name, or nil.
func (c *Cluster) Node(name string) *Node {
	for _, n := range c.Nodes {
		if n.Name == name {
			return n
		}
	}
	return nil
}

// LiveNodes returns the nodes whose process exists, except those given.
func (c *Cluster) LiveNodes(except ...*Node) []*Node {
	var all []*Node
	for _, n := range c.Nodes {
		if n.Alive() && !slices.Contains(except, n) {
			all = append(all, n)
		}
	}
	return all
}

// Logs returns the end of every log, at most the given number of lines of each.
func (c *Cluster) Logs(lines int) string {
	var b strings.Builder
	for _, n := range c.Nodes {
		b.WriteString(n.logs(lines))
	}
	if c.Server != nil && c.Server.proc != nil {
		fmt.Fprintf(&b, "--- nats-server\n%s\n", c.Server.proc.Tail(lines))
	}
	fmt.Fprintf(&b, "--- complete logs: %s\n", filepath.Join(c.cfg.Dir, "*.log"))
	return b.String()
}

// Quit ends all nodes with SIGQUIT, which writes the stacks of their goroutines to their logs.
func (c *Cluster) Quit(ctx context.Context) error {
	return forAll(c.LiveNodes(), func(n *Node) error { return n.Process().Quit(ctx) })
}

// Close kills all processes and closes the network.
func (c *Cluster) Close() {
	if c.control != nil {
		c.control.Close()
	}
	for _, n := range c.Nodes {
		n.Process().close()
	}
	if c.Server != nil {
		c.Server.proc.close()
	}
	if c.Fabric != nil {
		c.Fabric.Close()
	}
}
