package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Ports of a node with its own host. On loopback the node chooses free ports.
const (
	httpPort      = "8000"
	natsPort      = "4222"
	natsRoutePort = "6222"
	actorPort     = "7000"
	bulkPort      = "7001"
)

// Node is a node that can be restarted. Every process of it has the same name, data folder and
// flags, and keeps the addresses of the first one.
type Node struct {
	Name string

	host  *Host
	dir   string   // data folder and logs
	flags []string // without those for addresses

	mu     sync.Mutex
	listen map[string]string // address by flag; port 0 until it is known
	starts int
	proc   *Process
	web    *http.Client
}

func newNode(host *Host, name, dir string, flags ...string) *Node {
	n := &Node{Name: name, host: host, dir: dir, flags: flags, listen: map[string]string{}}
	n.web = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: host.Dial}}
	ports := map[string]string{"--http": httpPort, "--cluster-listen": actorPort, "--data-listen": bulkPort}
	if n.embedsNATS() {
		ports["--nats-listen"] = natsPort
	}
	for flag, port := range ports {
		if host == loopback {
			port = "0"
		}
		if HasFlag(flag) {
			n.listen[flag] = net.JoinHostPort(host.Addr.String(), port)
		}
	}
	return n
}

var (
	httpLine = regexp.MustCompile(`(?m)^\s*HTTP\s+http://(\S+)`)
	natsLine = regexp.MustCompile(`(?m)^\s*NATS\s+(nats://\S+)`)
)

// Start starts the node and waits until it prints its addresses.
func (n *Node) Start(ctx context.Context) error {
	bin, err := build(nodePackage)
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proc != nil && !n.proc.Ended() {
		return fmt.Errorf("%s is already running", n.Name)
	}
	n.starts++
	log := filepath.Join(n.dir, fmt.Sprintf("%s.%d.log", n.Name, n.starts))
	if n.proc, err = start(n.host, n.Name, log, bin, n.args()...); err != nil {
		return err
	}
	match, err := n.proc.waitForOutput(ctx, httpLine)
	if err != nil {
		return err
	}
	n.listen["--http"] = match[1]
	if n.embedsNATS() {
		u, err := n.natsURL(ctx)
		if err != nil {
			return err
		}
		n.listen["--nats-listen"] = u.Host
	}
	return nil
}

func (n *Node) args() []string {
	args := []string{"up", "--data", filepath.Join(n.dir, n.Name)}
	if HasFlag("--name") {
		args = append(args, "--name", n.Name)
	}
	for flag, address := range n.listen {
		args = append(args, flag, address)
	}
	if n.host != loopback {
		if HasFlag("--advertise") {
			args = append(args, "--advertise", n.host.Addr.String())
		}
		if HasFlag("--insecure") {
			args = append(args, "--insecure")
		}
	}
	if HasFlag("--drain-grace") && !slices.Contains(n.flags, "--drain-grace") {
		args = append(args, "--drain-grace", "0s") // there is no load balancer that must notice the drain
	}
	args = append(args, "--drain-timeout", "3m") // streams are slow on a busy machine
	return append(args, n.flags...)
}

// embedsNATS reports whether the node runs its own NATS server.
func (n *Node) embedsNATS() bool { return !slices.Contains(n.flags, "--join") }

// natsURL returns the URL of the NATS server that the node prints.
func (n *Node) natsURL(ctx context.Context) (*url.URL, error) {
	match, err := n.proc.waitForOutput(ctx, natsLine)
	if err != nil {
		return nil, err
	}
	return url.Parse(match[1])
}

// URL returns the URL of a path on the node's HTTP server.
func (n *Node) URL(path string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return "http://" + n.listen["--http"] + path
}

// HTTP returns an HTTP client on the node's host. Every request uses a new connection, so a broken
// connection affects one request only.
func (n *Node) HTTP() *http.Client { return n.web }

// Process returns the node's current process, or its last one.
func (n *Node) Process() *Process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.proc
}

// Restart stops the node gracefully and starts it again.
func (n *Node) Restart(ctx context.Context) error {
	return errors.Join(n.Process().Terminate(ctx), n.Start(ctx))
}

// Alive reports whether the process exists, even if it is stopped.
func (n *Node) Alive() bool {
	p := n.Process()
	return p != nil && !p.Ended()
}

// logs returns the end of the log of each of the node's processes.
func (n *Node) logs(lines int) string {
	var b strings.Builder
	for i := range n.starts {
		p := Process{Log: filepath.Join(n.dir, fmt.Sprintf("%s.%d.log", n.Name, i+1))}
		fmt.Fprintf(&b, "--- %s, start %d\n%s\n", n.Name, i+1, p.Tail(lines))
	}
	return b.String()
}
