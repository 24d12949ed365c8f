package troupe

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"troupe/cluster/natsd"
	"troupe/cluster/reply"
	"troupe/cluster/security"
)

const (
	joinWithin = 30 * time.Second // for the NATS servers of others to answer
	joinAgain  = 500 * time.Millisecond
)

// openNATS connects to the NATS servers of others, or starts one in this process.
func (n *Node) openNATS(ctx context.Context) error {
	if err := n.openGuard(); err != nil {
		return err
	}
	opts := natsd.ClientOptions("troupe node "+n.cfg.Name, n.cfg.Log)
	login, err := n.cfg.Login.Options()
	if err != nil {
		return err
	}
	opts = append(opts, login...)
	if len(n.cfg.Join) > 0 {
		err = n.dial(ctx, opts)
	} else {
		err = n.serveNATS(ctx, opts)
	}
	if err == nil {
		n.undo = append(n.undo, n.conn.Close)
	}
	return err
}

// openGuard makes the guard of all requests over NATS.
func (n *Node) openGuard() error {
	users, err := natsd.Users(n.cfg.NATSUsers)
	if err != nil {
		return err
	}
	rule, err := reply.NewRule(slices.Concat(n.cfg.NATSInboxPrefixes, reply.Prefixes(users)))
	if err != nil {
		return err
	}
	n.guard = reply.NewGuard(rule, n.metrics, n.cfg.Log)
	return nil
}

func (n *Node) serveNATS(ctx context.Context, opts []nats.Option) (err error) {
	cfg := natsd.Config{
		Listen: n.cfg.NATSListen, StoreDir: n.cfg.DataDir, Name: n.cfg.Name, Log: n.cfg.Log,
		ClusterListen: n.cfg.NATSClusterListen, Routes: n.cfg.NATSRoutes, UsersFile: n.cfg.NATSUsers,
	}
	if n.cfg.TLS != nil {
		cfg.TLS, cfg.ClusterTLS = n.cfg.TLS.Server(), n.cfg.TLS.Peer()
	}
	if n.nats, err = natsd.Start(ctx, cfg); err != nil {
		return err
	}
	n.undo = append(n.undo, n.nats.Stop)
	if n.conn, err = n.nats.Connect(opts...); err != nil {
		return fmt.Errorf("connection to the node's own nats-server: %w", err)
	}
	return nil
}

// dial waits for a server: nodes that are started together need no order.
func (n *Node) dial(ctx context.Context, opts []nats.Option) (err error) {
	ctx, cancel := context.WithTimeout(ctx, joinWithin)
	defer cancel()
	urls := strings.Join(n.cfg.Join, ",")
	for told := false; ; told = true {
		if n.conn, err = nats.Connect(urls, opts...); err == nil {
			return nil
		}
		if !told {
			n.cfg.Log.Warn().Err(err).Str("servers", urls).Msg("waiting for NATS")
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("NATS at %s: %w; %s", urls, err, security.Remedy(err, "is the node that --join names running?"))
		case <-time.After(joinAgain):
		}
	}
}
