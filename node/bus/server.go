package bus

import (
	"context"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go"

	"troupe/cluster/natsd"
	"troupe/cluster/recovery"
	"troupe/cluster/reply"
)

// serve starts the embedded server and connects to it.
func (b *Bus) serve(ctx context.Context, opts []nats.Option) (err error) {
	cfg := natsd.Config{
		Listen: b.cfg.Listen, StoreDir: b.cfg.DataDir, Name: b.cfg.Node, Log: b.cfg.Log,
		ClusterListen: b.cfg.ClusterListen, Routes: b.cfg.Routes, UsersFile: b.cfg.UsersFile,
		OnUsersReload: b.usersChanged(), OnRefused: b.cfg.Audit.NATSRefused,
		OnDiskChange: b.diskChanged,
	}
	if b.cfg.TLS != nil {
		cfg.TLS, cfg.ClusterTLS, cfg.TrustedKeys = b.cfg.TLS.Server(), b.cfg.TLS.Peer, b.cfg.TLS.TrustedKeys
	}
	if cfg.NodeKey, err = b.cfg.Login.PublicKey(); err != nil {
		return err
	}
	if b.server, err = recovery.Start(ctx, b.cfg.Runtime, cfg, opts, b.storeCopy); err != nil {
		return err
	}
	if b.conn, err = b.server.Connect(opts...); err == nil {
		return nil
	}
	b.server.Stop()
	if b.cfg.UsersFile != "" { // the connection is a pipe, which breaks before the server sends its reason
		return fmt.Errorf("the node's own nats-server refuses its login (%w); name a user of %s with "+
			"--nats-nkey or --nats-creds, or add user %s", err, b.cfg.UsersFile, cfg.NodeKey)
	}
	return fmt.Errorf("connection to the node's own nats-server: %w", err)
}

// readUsers reads the prefixes of the users in the users file.
func (b *Bus) readUsers() error {
	users, err := natsd.LoadUsers(b.cfg.UsersFile)
	if err != nil {
		return err
	}
	return b.inboxes.setOwn(slices.Concat(b.cfg.InboxPrefixes, reply.Prefixes(users)))
}

// usersChanged returns the callback for a change of the users file. The callback makes all nodes
// reply to the inboxes of the new users.
func (b *Bus) usersChanged() func(error) {
	reloaded := b.cfg.Audit.Reloaded("NATS users")
	return func(err error) {
		if err == nil {
			err = b.readUsers()
		}
		reloaded(err)
		if err == nil {
			b.announceInboxes()
		}
	}
}

// diskChanged publishes a change of the disk's state as an event. The server has already logged it.
func (b *Bus) diskChanged(d natsd.Disk) {
	b.mu.Lock()
	publish := b.publish
	b.mu.Unlock()
	if publish == nil {
		return // the node is still starting
	}
	kind := map[natsd.DiskState]string{
		natsd.DiskOK: "disk.restored", natsd.DiskLow: "disk.low", natsd.DiskStopped: "disk.full",
	}[d.State]
	publish(kind, d.Folder, d.String())
}

// PublishTo sets the function that publishes changes of the embedded server's disk.
func (b *Bus) PublishTo(publish func(kind, subject, detail string)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.publish = publish
}

// Disk returns the state of the embedded server's disk, and false if there is no such server.
func (b *Bus) Disk() (natsd.Disk, bool) {
	if b.server == nil {
		return natsd.Disk{}, false
	}
	return b.server.Disk(), true
}

// Quorum returns the number of servers of the embedded server's NATS cluster that are connected,
// that exist, and that a majority needs. All are 0 if there is no cluster.
func (b *Bus) Quorum() (connected, servers, majority int) {
	if b.server == nil {
		return 0, 0, 0
	}
	return b.server.Quorum()
}
