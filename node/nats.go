package node

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"troupe/cluster/natsd"
	"troupe/cluster/recovery"
	"troupe/cluster/security"
)

const (
	joinWithin = 30 * time.Second // for the NATS servers of others to answer
	joinAgain  = 500 * time.Millisecond
)

// openNATS connects to the NATS servers of others, or starts one in this process.
func (n *Node) openNATS(ctx context.Context) error {
	if err := n.openInboxes(); err != nil {
		return err
	}
	known, err := recovery.Load(n.cfg.DataDir, n.cfg.Log)
	if err != nil {
		return err
	}
	n.copied = known
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
		n.watchTLS()
	}
	return err
}

// watchTLS follows changes of the CAs and of revoked certificates.
func (n *Node) watchTLS() {
	if n.cfg.TLS == nil {
		return
	}
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan struct{})
	n.undo = append(n.undo, func() { end(); <-ended })
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
		ClusterListen: n.cfg.NATSClusterListen, Routes: n.cfg.NATSRoutes, UsersFile: n.cfg.NATSUsers, OnUsersReload: n.usersChanged(), OnRefused: n.refusedByNATS,
		OnDiskChange: n.onDisk,
	}
	if n.cfg.TLS != nil {
		cfg.TLS, cfg.ClusterTLS, cfg.TrustedKeys = n.cfg.TLS.Server(), n.cfg.TLS.Peer, n.cfg.TLS.TrustedKeys
	}
	if cfg.NodeKey, err = n.cfg.Login.PublicKey(); err != nil {
		return err
	}
	if n.nats, err = recovery.Start(ctx, cfg, opts, n.copied); err != nil {
		return err
	}
	n.undo = append(n.undo, n.nats.Stop)
	n.conn, err = n.nats.Connect(opts...)
	switch {
	case err == nil:
	case n.cfg.NATSUsers != "": // the connection is a pipe, which breaks before it says why
		return fmt.Errorf("the node's own nats-server does not let it in (%w); name a user that %s has with --nats-nkey or "+
			"--nats-creds, or add this one %s", err, n.cfg.NATSUsers, cfg.NodeKey)
	default:
		return fmt.Errorf("connection to the node's own nats-server: %w", err)
	}
	return nil
}

// dial waits for a server: nodes that are started together need no order. One that refuses this node ends the wait.
func (n *Node) dial(ctx context.Context, opts []nats.Option) (err error) {
	ctx, cancel := context.WithTimeout(ctx, joinWithin)
	defer cancel()
	urls := strings.Join(n.cfg.Join, ",")
	shown := security.WithoutSecrets(urls)
	failed := func() error {
		return fmt.Errorf("NATS at %s: %w; %s", shown, err, security.Remedy(err, "is the node that --join names running?"))
	}
	for told := false; ; told = true {
		if n.conn, err = nats.Connect(urls, opts...); err == nil {
			return nil
		}
		if security.Refused(err) {
			return failed()
		}
		if !told {
			n.cfg.Log.Warn().Err(err).Str("servers", shown).Msg("waiting for NATS")
		}
		select {
		case <-ctx.Done():
			return failed()
		case <-time.After(joinAgain):
		}
	}
}
