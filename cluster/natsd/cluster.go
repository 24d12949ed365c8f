package natsd

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"
)

const (
	clusterName        = "troupe"
	defaultFormTimeout = 2 * time.Minute
	waitLogInterval    = 5 * time.Second
)

// clusterInfo is the clusterOptions that a server is to be part of.
type clusterInfo struct {
	servers     int // 1: it stands alone
	formTimeout time.Duration
}

// clusterOptions returns a function that fills the options of a server in a clusterOptions.
func (cfg *Config) clusterOptions() (clusterInfo, func(*server.Options), error) {
	alone, none := clusterInfo{servers: 1}, func(*server.Options) {}
	if cfg.ClusterListen == "" {
		if len(cfg.Routes) > 0 {
			return alone, none, fmt.Errorf("NATS routes without an address for them; give one with --nats-cluster-listen")
		}
		return alone, none, nil
	}
	host, port, err := parseListen(cfg.ClusterListen, "--nats-cluster-listen")
	if err != nil {
		return alone, none, err
	}
	routes, err := cfg.routes()
	if err != nil {
		return alone, none, err
	}
	if len(routes) < 2 {
		return alone, none, fmt.Errorf("a NATS cluster on %s needs the routes of its other servers; give them with --nats-routes", cfg.ClusterListen)
	}
	if len(routes) == 2 {
		cfg.Log.Warn().Msg("a NATS cluster of two servers stands still when either is lost; three survive the loss of one")
	}
	turn := -1
	if !cfg.SharedProcess {
		turn = localIdentity(cfg).rank(routes)
	}
	shortenElections(turn, len(routes))
	fill := func(opts *server.Options) {
		opts.Routes = slices.Clone(routes)
		opts.Cluster = server.ClusterOpts{Name: clusterName, Host: host, Port: port}
		if cfg.ClusterTLS != nil {
			opts.Cluster.TLSConfig = cfg.ClusterTLS()
		}
	}
	return clusterInfo{servers: len(routes), formTimeout: cmp.Or(cfg.FormTimeout, defaultFormTimeout)}, fill, nil
}

// routes returns the route of every server once, this one's among them: the server takes their number for the size of the
// clusterOptions, half of which must never elect a leader.
func (cfg *Config) routes() ([]*url.URL, error) {
	all := cfg.Routes
	if host, port, _ := net.SplitHostPort(cfg.ClusterListen); port != "0" && host != "" && !net.ParseIP(host).IsUnspecified() {
		all = append(slices.Clone(all), "nats://"+cfg.ClusterListen)
	}
	var routes []*url.URL
	for _, route := range all {
		u, err := url.Parse(route)
		if err != nil || u.Port() == "" {
			return nil, fmt.Errorf("NATS route %q: want nats://HOST:PORT", route)
		}
		if !slices.ContainsFunc(routes, func(known *url.URL) bool { return known.Host == u.Host }) {
			routes = append(routes, u)
		}
	}
	return routes, nil
}

// Replicas is how many servers of the clusterOptions keep each value: 3, where it has as many; else 1, since two copies can not
// elect a leader once one is lost.
func (s *Server) Replicas() int {
	if s.cluster.servers >= 3 {
		return 3
	}
	return 1
}

// Peers is how many other servers of the clusterOptions are connected.
func (s *Server) Peers() int {
	routes, err := s.nats.current().Routez(nil)
	if err != nil {
		return 0
	}
	ids := map[string]bool{}
	for _, r := range routes.Routes {
		ids[r.RemoteID] = true
	}
	return len(ids)
}

// Quorum returns how many servers of the clusterOptions are connected, this one among them, how many there are, and how many a
// majority is. A server that stands alone is its own majority.
func (s *Server) Quorum() (connected, servers, majority int) {
	if s.cluster.servers == 1 {
		return 1, 1, 1
	}
	return s.Peers() + 1, s.cluster.servers, s.cluster.servers/2 + 1
}

// formed waits until JetStream has a leader.
func (s *Server) waitFormed(ctx context.Context, log zerolog.Logger) error {
	if s.cluster.servers == 1 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.cluster.formTimeout)
	defer cancel()
	poll, tell := time.NewTicker(20*time.Millisecond), time.NewTicker(waitLogInterval)
	defer poll.Stop()
	defer tell.Stop()
	for !s.hasLeader() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("NATS cluster: %s: %w; start the others, or put --nats-routes right", s.waitReason(), ctx.Err())
		case <-tell.C:
			log.Info().Msg("NATS cluster: " + s.waitReason())
		case <-poll.C:
		}
	}
	return nil
}

func (s *Server) hasLeader() bool {
	info, err := s.nats.current().Jsz(nil)
	return err == nil && info.Meta != nil && info.Meta.Leader != ""
}

// waitReason says what for.
func (s *Server) waitReason() string {
	up, servers, majority := s.Quorum()
	if up < majority {
		return fmt.Sprintf("waiting for other servers: %d of %d are connected, %d are needed", up, servers, majority)
	}
	return fmt.Sprintf("waiting for JetStream to elect a leader: %d of %d servers are connected", up, servers)
}
