package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"troupe/gateway"
	"troupe/gateway/web"
)

// WebConfig says who may ask over HTTP, and how much.
type WebConfig struct {
	Limits web.Limits
	// Metrics is where /metrics, /live, /health and /ready are served too; empty: nowhere. On isLoopback it
	// asks for no key.
	Metrics string
	// Hosts are names of this node beside localhost, its own ones and addresses. Without keys, a
	// node that listens on isLoopback answers no others; with keys, only if some are listed.
	Hosts   []string
	Origins []string // whose pages may use the API
	// BodyBytes bounds the memory of request bodies; 0: the gateway's default.
	BodyBytes int64
}

// metricsConnections is how many scrapers may be connected.
const metricsConnections = 64

// lateHandler serves with the handler that was set last.
type lateHandler struct{ now atomic.Pointer[http.Handler] }

func (l *lateHandler) set(h http.Handler) { l.now.Store(&h) }

// ServeHTTP implements http.Handler.
func (l *lateHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	(*l.now.Load()).ServeHTTP(w, r)
}

// openWeb serves HTTP. Until serveWeb only probes are answered, so that the node is known to be alive however
// long it starts.
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
			Name: "troupe_http_connections", Help: "Connections of HTTP clients that are open.",
		}, func() float64 { open, _ := limited.Stats(); return float64(open) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "troupe_http_connections_refused_total", Help: "Connections of HTTP clients beyond a limit.",
		}, func() float64 { _, refused := limited.Stats(); return float64(refused) }),
	)
	n.overloadHandler.set(gateway.Starting())
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
	limits.Connections, limits.PerAddress = metricsConnections, metricsConnections
	n.serve(web.Listen(scrapers, limits), limits, &n.metricsHandler)
	return nil
}

// serve starts an HTTP server, which answers probes until its handler is set.
func (n *Node) serve(l net.Listener, limits web.Limits, late *lateHandler) {
	late.set(gateway.Starting())
	s := web.NewServer(limits, late, &n.overloadHandler, n.webLog())
	n.servers = append(n.servers, s)
	n.closers = append(n.closers, func() { _ = s.Close() })
	l = n.withTLS(l)
	go func() {
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			n.cfg.Log.Error().Err(err).Msg("HTTP server ended")
		}
	}()
}

// withTLS puts TLS around a listener, where there is a certificate.
func (n *Node) withTLS(l net.Listener) net.Listener {
	if n.cfg.HTTPTLS == nil {
		return l
	}
	return tls.NewListener(l, n.cfg.HTTPTLS)
}

// serveWeb lets requests in.
func (n *Node) serveWeb(context.Context) error {
	handler := http.Handler(n.gateway)
	if hosts, ok := n.hosts(n.address); ok {
		handler = n.gateway.Hosts(hosts, handler)
	}
	n.overloadHandler.set(n.gateway.Busy())
	n.clientHandler.set(handler)
	if n.metricsAddress == "" {
		return nil
	}
	onLoopback := isLoopback(n.metricsAddress)
	handler = n.gateway.Scrapes(onLoopback)
	if hosts, ok := n.hosts(n.metricsAddress); ok || onLoopback {
		handler = n.gateway.Hosts(hosts, handler)
	}
	n.metricsHandler.set(handler)
	return nil
}

// hosts returns the names that requests must be for, where they must be for some.
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

// webLog takes what net/http says about connections: clients cause it, so it is debug, and seldom.
func (n *Node) webLog() *log.Logger {
	seldom := n.cfg.Log.Sample(&zerolog.BurstSampler{Burst: 5, Period: 10 * time.Second})
	return log.New(debugWriter{seldom}, "", 0)
}

type debugWriter struct{ zerolog.Logger }

func (d debugWriter) Write(line []byte) (int, error) {
	d.Debug().Msg(strings.TrimSpace(string(line)))
	return len(line), nil
}

// MetricsAddr is where scrapers are served; empty: nowhere but at HTTPAddr.
func (n *Node) MetricsAddr() string { return n.metricsAddress }

func listen(what, option, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err == nil {
		return l, nil
	}
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	return nil, fmt.Errorf("%s can not listen on %s: %w; give another address with %s", what, address, err, option)
}
