package httpd

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/gateway"
	"troupe/gateway/web"
)

const (
	// metricsConnections limits the connections of scrapers.
	metricsConnections = 64
	// probeShutdownTimeout is how long responses to probes and scrapers may take once no other
	// request is in flight.
	probeShutdownTimeout = time.Second
)

// Config configures a Server.
type Config struct {
	Address   string       // for clients; port 0 takes a free port
	Listener  net.Listener // listens on Address; nil: Open opens it
	TLS       *tls.Config  // nil: plain HTTP
	Limits    web.Limits
	Metrics   string   // address for scrapers; empty: none
	Hosts     []string // additional accepted host names
	Keyed     bool     // clients need a key
	Advertise string   // host name by which other nodes reach this node
	Registry  prometheus.Registerer
	Log       zerolog.Logger
	Runtime   supervise.Runtime
}

// Gateway handles the requests.
type Gateway interface {
	http.Handler
	// AllowHosts returns a handler that refuses requests for other host names.
	AllowHosts(names []string, next http.Handler) http.Handler
	// BusyHandler returns the handler for connections beyond a limit.
	BusyHandler() http.Handler
	// MetricsHandler returns the handler for scrapers. If open is set, they need no key.
	MetricsHandler(open bool) http.Handler
}

// Server serves HTTP.
type Server struct {
	cfg            Config
	servers        []*http.Server
	closers        []func()    // in the order in which they were opened
	client         lateHandler // serves clients
	scraper        lateHandler // serves scrapers
	overload       lateHandler // serves connections beyond a limit
	address        string
	metricsAddress string
}

// Open opens the listeners and starts answering probes.
func Open(cfg Config) (_ *Server, err error) {
	cfg.Limits.Runtime = cfg.Runtime
	s := &Server{cfg: cfg}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	listener := cfg.Listener
	if listener == nil {
		if listener, err = listen("HTTP", "--http", cfg.Address); err != nil {
			return nil, err
		}
	}
	s.closers = append(s.closers, func() { _ = listener.Close() })
	s.address = listener.Addr().String()
	limited := web.Listen(listener, cfg.Limits)
	cfg.Registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "troupe_http_connections", Help: "Open connections of HTTP clients.",
		}, func() float64 { open, _ := limited.Stats(); return float64(open) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "troupe_http_connections_refused_total",
			Help: "Connections of HTTP clients refused because of a limit.",
		}, func() float64 { _, refused := limited.Stats(); return float64(refused) }),
	)
	s.overload.set(gateway.StartingHandler(cfg.Runtime))
	s.serve(limited, cfg.Limits, &s.client)
	if cfg.Metrics == "" {
		return s, nil
	}
	scrapers, err := listen("metrics", "--metrics-listen", cfg.Metrics)
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, func() { _ = scrapers.Close() })
	s.metricsAddress = scrapers.Addr().String()
	limits := cfg.Limits
	limits.MaxConnections, limits.MaxPerAddress = metricsConnections, metricsConnections
	s.serve(web.Listen(scrapers, limits), limits, &s.scraper)
	return s, nil
}

// serve starts an HTTP server that answers probes until its handler is set.
func (s *Server) serve(l net.Listener, limits web.Limits, late *lateHandler) {
	late.set(gateway.StartingHandler(s.cfg.Runtime))
	server := web.NewServer(limits, late, &s.overload, newLog(s.cfg.Log))
	if s.cfg.TLS != nil {
		l = tls.NewListener(l, s.cfg.TLS)
	}
	ended := make(chan struct{})
	s.servers = append(s.servers, server)
	s.closers = append(s.closers, func() { _ = server.Close(); <-ended })
	s.cfg.Runtime.Go(func() {
		defer close(ended)
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.cfg.Log.Error().Err(err).Msg("HTTP server ended")
		}
	})
}

// Address returns the address for clients.
func (s *Server) Address() string { return s.address }

// MetricsAddress returns the address for scrapers; empty: there is none.
func (s *Server) MetricsAddress() string { return s.metricsAddress }

// Serve starts serving requests.
func (s *Server) Serve(g Gateway) {
	handler := http.Handler(g)
	if hosts, ok := s.cfg.hosts(s.address); ok {
		handler = g.AllowHosts(hosts, handler)
	}
	s.overload.set(g.BusyHandler())
	s.client.set(handler)
	if s.metricsAddress == "" {
		return
	}
	onLoopback := isLoopback(s.metricsAddress)
	handler = g.MetricsHandler(onLoopback)
	if hosts, ok := s.cfg.hosts(s.metricsAddress); ok || onLoopback {
		handler = g.AllowHosts(hosts, handler)
	}
	s.scraper.set(handler)
}

// EndKeepAlives closes idle connections at once, and the others after their next response.
func (s *Server) EndKeepAlives() {
	for _, server := range s.servers {
		server.SetKeepAlivesEnabled(false)
	}
}

// Shutdown stops serving. Probes in flight have probeShutdownTimeout to finish.
func (s *Server) Shutdown() (err error) {
	ctx, cancel := s.cfg.Runtime.WithTimeout(context.Background(), probeShutdownTimeout)
	defer cancel()
	for _, server := range s.servers {
		if server.Shutdown(ctx) != nil {
			err = errors.Join(err, server.Close())
		}
	}
	return err
}

// Close closes the listeners and all connections.
func (s *Server) Close() {
	for _, closer := range slices.Backward(s.closers) {
		closer()
	}
	s.closers = nil
}
