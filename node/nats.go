package node

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"troupe/actors/supervise"
	"troupe/cluster/natsd"
	"troupe/cluster/recovery"
	"troupe/cluster/security"
)

const (
	joinTimeout = 30 * time.Second // for a NATS server to answer
	joinRetry   = 500 * time.Millisecond
)

// openNATS connects to the NATS servers of Config.Join, or starts an embedded one.
func (n *Node) openNATS(ctx context.Context) error {
	if err := n.openInboxes(); err != nil {
		return err
	}
	known, err := recovery.Load(n.cfg.DataDir, n.cfg.Log)
	if err != nil {
		return err
	}
	n.storeCopy = known
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
		n.closers = append(n.closers, n.conn.Close)
		n.watchTLS()
	}
	return err
}

// watchTLS follows changes of CAs and of revoked certificates.
func (n *Node) watchTLS() {
	if n.cfg.TLS == nil {
		return
	}
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan struct{})
	n.closers = append(n.closers, func() { end(); <-ended })
	go func() {
		defer close(ended)
		n.cfg.TLS.Watch(ctx, func() error {
			if n.nats == nil {
				return nil
			}
			return n.nats.ReloadTLS()
		})
	}()
}

func (n *Node) serveNATS(ctx context.Context, opts []nats.Option) (err error) {
	cfg := natsd.Config{
		Listen: n.cfg.NATSListen, StoreDir: n.cfg.DataDir, Name: n.cfg.Name, Log: n.cfg.Log,
		ClusterListen: n.cfg.NATSClusterListen, Routes: n.cfg.NATSRoutes, UsersFile: n.cfg.NATSUsers,
		OnUsersReload: n.usersChanged(), OnRefused: n.auditNATSRefusal,
		OnDiskChange: n.publishDisk,
	}
	if n.cfg.TLS != nil {
		cfg.TLS, cfg.ClusterTLS, cfg.TrustedKeys = n.cfg.TLS.Server(), n.cfg.TLS.Peer, n.cfg.TLS.TrustedKeys
	}
	if cfg.NodeKey, err = n.cfg.Login.PublicKey(); err != nil {
		return err
	}
	if n.nats, err = recovery.Start(ctx, supervise.System, cfg, opts, n.storeCopy); err != nil {
		return err
	}
	n.closers = append(n.closers, n.nats.Stop)
	n.conn, err = n.nats.Connect(opts...)
	switch {
	case err == nil:
	case n.cfg.NATSUsers != "": // the connection is a pipe, which breaks before the server sends its reason
		return fmt.Errorf("the node's own nats-server refuses its login (%w); name a user of %s with "+
			"--nats-nkey or --nats-creds, or add user %s", err, n.cfg.NATSUsers, cfg.NodeKey)
	default:
		return fmt.Errorf("connection to the node's own nats-server: %w", err)
	}
	return nil
}

// dial connects to a NATS server of Config.Join. It retries for joinTimeout, so that nodes can
// start in any order, but not if the server refuses the login.
func (n *Node) dial(ctx context.Context, opts []nats.Option) (err error) {
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	urls := strings.Join(n.cfg.Join, ",")
	shown := security.WithoutSecrets(urls)
	failed := func() error {
		return fmt.Errorf("NATS at %s: %w; %s", shown, err,
			security.Remedy(err, "is the node that --join names running?"))
	}
	for warned := false; ; warned = true {
		if n.conn, err = nats.Connect(urls, opts...); err == nil {
			return nil
		}
		if security.Refused(err) {
			return failed()
		}
		if !warned {
			n.cfg.Log.Warn().Err(err).Str("servers", shown).Msg("waiting for NATS")
		}
		select {
		case <-ctx.Done():
			return failed()
		case <-time.After(joinRetry):
		}
	}
}
