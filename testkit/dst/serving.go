package dst

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"troupe/actors/model/router"
	core "troupe/core/backend"
	"troupe/core/kv"
	"troupe/engine"
	"troupe/gateway"
	"troupe/gateway/apikey"
	"troupe/gateway/web"
	"troupe/messages"
	"troupe/node/backend"
	"troupe/node/hierarchy"
)

// keyFile has the API keys of the clients.
const keyFile = "testdata/keys.yaml"

// serving is the HTTP side of a node: the gateway of the product, with the limits of its web server,
// and the connections of clients.
type serving struct {
	calls    *gateway.Calls
	quotas   *gateway.Quotas
	cache    router.DeploymentCache
	registry *prometheus.Registry
	gateway  *gateway.Gateway

	mu          sync.Mutex
	handler     http.Handler
	connections []*socket // that have a running handler, by id
	stopping    bool      // the gateway refuses requests
}

// openServing creates the gateway. Until startServing is called, it only answers probes, as a node
// does that starts.
func (n *Node) openServing() {
	keys, err := apikey.Open(keyFile, n.cfg.Log)
	if err != nil {
		panic(err)
	}
	s := &n.serving
	s.calls, s.quotas = gateway.NewCalls(), gateway.NewQuotas(0, n.runtime)
	s.registry = prometheus.NewRegistry()
	known := n.catalogue
	deployments := &backend.DeploymentControl{System: n.system, Catalogue: known}
	adapters := &backend.AdapterControl{Catalogue: known, Deployments: deployments.Deployments, Runtime: n.runtime}
	s.gateway = gateway.New(gateway.Config{
		Directory: &directory{backend.Directory{DeploymentControl: deployments, Cache: &s.cache}, n},
		Adapters:  adapters, Calls: s.calls, Root: n.system.Root, Actor: hierarchy.Gateway(n.system),
		Inspect:  func(_ core.Kind, path string) (engine.ModelInfo, error) { return InfoOf(path), nil },
		Registry: s.registry, Keys: keys, Quotas: s.quotas, Runtime: n.runtime, Log: n.cfg.Log,
		Salt: func(tenant, cacheSalt string) ([]byte, error) {
			return kv.Salt(make([]byte, kv.SecretBytes), tenant, cacheSalt)
		},
	})
	n.setHandler(gateway.StartingHandler(n.runtime))
}

// startServing lets the gateway serve requests.
func (n *Node) startServing() { n.setHandler(n.serving.gateway) }

// setHandler sets the handler of requests, behind the limits of the web server.
func (n *Node) setHandler(h http.Handler) {
	limited := web.NewServer(web.Limits{Runtime: n.runtime}, h, n.serving.gateway.BusyHandler(), nil).Handler
	n.serving.mu.Lock()
	defer n.serving.mu.Unlock()
	n.serving.handler = limited
}

// directory is the product's gateway.Directory. Its answers come in a task of their own, since the
// actor that answers may still run.
type directory struct {
	backend.Directory
	node *Node
}

// Deployment implements gateway.Directory.
func (d *directory) Deployment(ctx context.Context, name string) (*messages.DeploymentStatus, error) {
	defer d.node.takeTurn("directory")
	return d.Directory.Deployment(ctx, name)
}

// Deployments implements gateway.Directory.
func (d *directory) Deployments(ctx context.Context) ([]*messages.DeploymentStatus, error) {
	defer d.node.takeTurn("directory")
	return d.Directory.Deployments(ctx)
}

// takeTurn waits until the world runs the task that the caller continues in.
func (n *Node) takeTurn(what string) {
	turn := make(chan struct{})
	n.dispatcher.add(task{key: n.cfg.Name + " " + what, label: func() string { return n.cfg.Name + " " + what },
		run: func() { close(turn) }})
	<-turn
}

// accept starts the handler of a request. It returns an error if the node does not listen.
func (n *Node) accept(c *socket, r *http.Request) error {
	if n.crashed {
		return net.ErrClosed
	}
	s := &n.serving
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	s.connections = append(s.connections, c)
	slices.SortFunc(s.connections, func(a, b *socket) int { return cmp.Compare(a.id, b.id) })
	handler := s.handler
	what := n.cfg.Name + " http " + c.id + " begins"
	n.dispatcher.add(task{key: what, label: func() string { return what },
		run: func() { c.serve(handler, r.WithContext(ctx)) }})
	return nil
}

// forget removes a connection whose handler has returned.
func (n *Node) forget(c *socket) {
	n.serving.mu.Lock()
	defer n.serving.mu.Unlock()
	n.serving.connections = slices.DeleteFunc(n.serving.connections, func(o *socket) bool { return o == c })
}

// breakConnections breaks all connections when the node crashes. Each handler continues in a task
// of its own.
func (n *Node) breakConnections() {
	n.serving.mu.Lock()
	defer n.serving.mu.Unlock()
	for _, c := range n.serving.connections {
		what := n.cfg.Name + " http " + c.id + " breaks"
		n.world.add(task{key: what, label: func() string { return what }, run: c.crash})
	}
}
