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

// Ports of a node that has a host to itself. On loopback it chooses its own.
const (
	httpPort      = "8000"
	natsPort      = "4222"
	natsRoutePort = "6222"
	actorPort     = "7000"
	bulkPort      = "7001"
)

// Node is a node process, over all its lives: each has the same name, data folder, options and, from the first one on, addresses.
type Node struct {
	Name string

	host  *Host
	dir   string   // data folder and logs
	flags []string // beside those that say where it listens

	mu     sync.Mutex
	listen map[string]string // flag to address; port 0 until it is known
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

// Start begins the node's next life and waits until it says where it is.
func (n *Node) Start(ctx context.Context) error {
	bin, err := build(nodePackage)
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proc != nil && !n.proc.Ended() {
		return fmt.Errorf("%s runs already", n.Name)
	}
	n.starts++
	log := filepath.Join(n.dir, fmt.Sprintf("%s.%d.log", n.Name, n.starts))
	if n.proc, err = start(n.host, n.Name, log, bin, n.args()...); err != nil {
		return err
	}
	at, err := n.proc.waitForOutput(ctx, httpLine)
	if err != nil {
		return err
	}
	n.listen["--http"] = at[1]
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
		args = append(args, "--drain-grace", "0s") // there is no balancer that would have to notice
	}
	args = append(args, "--drain-timeout", "3m") // on a busy machine streams take their time
	return append(args, n.flags...)
}

// embeds reports whether the node has a NATS server of its own.
func (n *Node) embedsNATS() bool { return !slices.Contains(n.flags, "--join") }

// natsURL is the server that the node says it is connected to.
func (n *Node) natsURL(ctx context.Context) (*url.URL, error) {
	at, err := n.proc.waitForOutput(ctx, natsLine)
	if err != nil {
		return nil, err
	}
	return url.Parse(at[1])
}

// URL is a page of the node's HTTP server.
func (n *Node) URL(path string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return "http://" + n.listen["--http"] + path
}

// HTTP is a client for the node, as a program on its host would have. Every request has a connection of its own, which a broken one
// thus can not outlive.
func (n *Node) HTTP() *http.Client { return n.web }

// Process is the node's present life, or its last.
func (n *Node) Process() *Process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.proc
}

// Restart ends the node in order and begins its next life.
func (n *Node) Restart(ctx context.Context) error {
	return errors.Join(n.Process().Terminate(ctx), n.Start(ctx))
}

// Alive reports whether the process is there, stopped or not.
func (n *Node) Alive() bool {
	p := n.Process()
	return p != nil && !p.Ended()
}

// logs is the end of what the node wrote in each of its lives.
func (n *Node) logs(lines int) string {
	var b strings.Builder
	for life := range n.starts {
		p := Process{Log: filepath.Join(n.dir, fmt.Sprintf("%s.%d.log", n.Name, life+1))}
		fmt.Fprintf(&b, "--- %s, life %d\n%s\n", n.Name, life+1, p.Tail(lines))
	}
	return b.String()
}
