package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"troupe/actors/supervise"
	"troupe/gateway"
	"troupe/gateway/web"
)

// WebConfig configures the access over HTTP and its limits.
type WebConfig struct {
	Limits web.Limits
	// Metrics is a second address for /metrics, /live, /health and /ready; empty: none. On loopback
	// it needs no key.
	Metrics string
	// Hosts are additional host names of this node; localhost, its own names and its addresses are
	// always accepted. Other hosts are refused if Hosts is set, or if a node without keys listens
	// on loopback.
	Hosts   []string
	Origins []string // web origins that may use the API
	// BodyBytes limits the memory for request bodies; 0: the gateway's default.
	BodyBytes int64
}

// metricsConnections limits the connections of scrapers.
const metricsConnections = 64

// lateHandler is a handler that can be replaced while it serves.
type lateHandler struct{ now atomic.Pointer[http.Handler] }

func (l *lateHandler) set(h http.Handler) { l.now.Store(&h) }

// ServeHTTP implements http.Handler.
func (l *lateHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	(*l.now.Load()).ServeHTTP(w, r)
}

// openWeb starts to serve HTTP. Until serveWeb it answers only probes, so that a slow start is not
// taken for a dead node.
func (n *Node) openWeb() (err error) {
	listener := n.cfg.HTTPListener
	if listener == nil {
		if listener, err = listen("HTTP", "--http", n.cfg.HTTP); err != nil {
			return err
		}
	}
	n.closers = append(n.closers, func() { _ = listener.Close() })
	n.address = listener.Addr().String()
	limits := n.cfg.WebConfig.Limits
	limited := web.Listen(listener, limits)
	n.metrics.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "troupe_http_connections", Help: "Open connections of HTTP clients.",
		}, func() float64 { open, _ := limited.Stats(); return float64(open) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "troupe_http_connections_refused_total",
			Help: "Connections of HTTP clients refused because of a limit.",
		}, func() float64 { _, refused := limited.Stats(); return float64(refused) }),
	)
	n.overloadHandler.set(gateway.StartingHandler(supervise.System))
	n.serve(limited, limits, &n.clientHandler)
	if n.cfg.WebConfig.Metrics == "" {
		return nil
	}
	scrapers, err := listen("metrics", "--metrics-listen", n.cfg.WebConfig.Metrics)
	if err != nil {
		return err
	}
	n.closers = append(n.closers, func() { _ = scrapers.Close() })
	n.metricsAddress = scrapers.Addr().String()
	limits.MaxConnections, limits.MaxPerAddress = metricsConnections, metricsConnections
	n.serve(web.Listen(scrapers, limits), limits, &n.metricsHandler)
	return nil
}

// serve starts an HTTP server that answers probes until its handler is set.
func (n *Node) serve(l net.Listener, limits web.Limits, late *lateHandler) {
	late.set(gateway.StartingHandler(supervise.System))
	s := web.NewServer(limits, late, &n.overloadHandler, newWebLog(n.cfg.Log))
	n.servers = append(n.servers, s)
	n.closers = append(n.closers, func() { _ = s.Close() })
	l = n.withTLS(l)
	go func() {
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			n.cfg.Log.Error().Err(err).Msg("HTTP server ended")
		}
	}()
}

// withTLS wraps a listener in TLS if a certificate is configured.
func (n *Node) withTLS(l net.Listener) net.Listener {
	if n.cfg.HTTPTLS == nil {
		return l
	}
	return tls.NewListener(l, n.cfg.HTTPTLS)
}

// serveWeb starts to serve requests.
func (n *Node) serveWeb(context.Context) error {
	handler := http.Handler(n.gateway)
	if hosts, ok := n.hosts(n.address); ok {
		handler = n.gateway.AllowHosts(hosts, handler)
	}
	n.overloadHandler.set(n.gateway.BusyHandler())
	n.clientHandler.set(handler)
	if n.metricsAddress == "" {
		return nil
	}
	onLoopback := isLoopback(n.metricsAddress)
	handler = n.gateway.MetricsHandler(onLoopback)
	if hosts, ok := n.hosts(n.metricsAddress); ok || onLoopback {
		handler = n.gateway.AllowHosts(hosts, handler)
	}
	n.metricsHandler.set(handler)
	return nil
}

// hosts returns the accepted host names, and reports whether requests are checked against them.
func (n *Node) hosts(address string) (names []string, check bool) {
	names = slices.Clone(n.cfg.WebConfig.Hosts)
	check = len(names) > 0 || n.cfg.Keys == nil && isLoopback(address)
	configured, _, _ := net.SplitHostPort(n.cfg.HTTP)
	machine, _ := os.Hostname()
	label, _, _ := strings.Cut(machine, ".")
	for _, own := range []string{configured, n.cfg.Advertise, machine, label} {
		if own != "" {
			names = append(names, own)
		}
	}
	return names, check
}

func isLoopback(address string) bool {
	at, err := netip.ParseAddrPort(address)
	return err == nil && at.Addr().Unmap().IsLoopback()
}

func listen(what, option, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err == nil {
		return l, nil
	}
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	return nil, fmt.Errorf("%s cannot listen on %s: %w; give another address with %s", what, address, err, option)
}
