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

// clusterInfo describes the cluster of a server.
type clusterInfo struct {
	servers     int // 1 for a standalone server
	formTimeout time.Duration
}

// clusterOptions returns the cluster of the server and a function that sets the server options for
// it.
func (cfg *Config) clusterOptions() (clusterInfo, func(*server.Options), error) {
	alone, none := clusterInfo{servers: 1}, func(*server.Options) {}
	if cfg.ClusterListen == "" {
		if len(cfg.Routes) > 0 {
			return alone, none, fmt.Errorf("NATS routes need an address to listen on; set --nats-cluster-listen")
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
		return alone, none, fmt.Errorf("a NATS cluster on %s needs the routes of its other servers; set --nats-routes",
			cfg.ClusterListen)
	}
	if len(routes) == 2 {
		cfg.Log.Warn().
			Msg("a NATS cluster of two servers has no quorum without both; three servers survive the loss of one")
	}
	rank := -1
	if !cfg.SharedProcess {
		rank = localIdentity(cfg).rank(routes)
	}
	shortenElections(rank, len(routes))
	fill := func(opts *server.Options) {
		opts.Routes = slices.Clone(routes)
		opts.Cluster = server.ClusterOpts{Name: clusterName, Host: host, Port: port}
		if cfg.ClusterTLS != nil {
			opts.Cluster.TLSConfig = cfg.ClusterTLS()
		}
	}
	return clusterInfo{servers: len(routes), formTimeout: cmp.Or(cfg.FormTimeout, defaultFormTimeout)}, fill, nil
}

// routes returns the route of every server once, its own included: nats-server takes the number of
// routes as the size of the cluster, and half of the servers must never elect a leader.
func (cfg *Config) routes() ([]*url.URL, error) {
	all := cfg.Routes
	if host, port, _ := net.SplitHostPort(cfg.ClusterListen); port != "0" && host != "" &&
		!net.ParseIP(host).IsUnspecified() {
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

// Peers returns the number of other servers of the cluster that are connected.
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

// Quorum returns the number of connected servers of the cluster, this one included, the number of
// all its servers, and the size of a majority. All three are 1 for a standalone server.
func (s *Server) Quorum() (connected, servers, majority int) {
	if s.cluster.servers == 1 {
		return 1, 1, 1
	}
	return s.Peers() + 1, s.cluster.servers, s.cluster.servers/2 + 1
}

// waitFormed waits until JetStream has a leader.
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
			return fmt.Errorf("NATS cluster: %s: %w; start the others, or correct --nats-routes",
				s.waitReason(), ctx.Err())
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

// waitReason returns what waitFormed waits for.
func (s *Server) waitReason() string {
	up, servers, majority := s.Quorum()
	if up < majority {
		return fmt.Sprintf("waiting for other servers: %d of %d are connected, %d are needed", up, servers, majority)
	}
	return fmt.Sprintf("waiting for JetStream to elect a leader: %d of %d servers are connected", up, servers)
}
