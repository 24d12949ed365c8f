package natsd

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"troupe/internal/reload"
)

// usersCheckInterval is the interval between checks of the users file for changes.
const usersCheckInterval = time.Second

// watchUsers applies changes of the users file until ctx ends. The server disconnects users that
// were removed.
func (s *Server) watchUsers(ctx context.Context, cfg *Config) error {
	if cfg.UsersFile == "" {
		return nil
	}
	first := true
	read := func() (struct{}, error) {
		if first { // Start has read it
			first = false
			return struct{}{}, nil
		}
		if err := s.reloadUsers(cfg.NodeKey); err != nil {
			return struct{}{}, err
		}
		cfg.Log.Info().Str("file", cfg.UsersFile).Msg("NATS users loaded")
		cfg.usersReloaded(nil)
		return struct{}{}, nil
	}
	failed := func(err error) {
		cfg.Log.Error().Err(err).Msg("loading changed NATS users failed; keeping the current ones")
		cfg.usersReloaded(err)
	}
	file, err := reload.New(read, failed, cfg.UsersFile)
	if err != nil {
		return fmt.Errorf("NATS users: %w", err)
	}
	s.loops.Go(func() {
		tick := time.NewTicker(usersCheckInterval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				file.Get()
			}
		}
	})
	return nil
}

func (cfg *Config) usersReloaded(err error) {
	if cfg.OnUsersReload != nil {
		cfg.OnUsersReload(err)
	}
}

// reloadUsers replaces the users by those of the file, unless that would lock out the node.
func (s *Server) reloadUsers(nodeKey string) error {
	s.reload.Lock()
	defer s.reload.Unlock()
	opts, err := s.options()
	if err != nil {
		return err
	}
	known := func(u *server.NkeyUser) bool { return u.Nkey == nodeKey }
	if nodeKey != "" && len(opts.TrustedOperators) == 0 && !slices.ContainsFunc(opts.Nkeys, known) {
		return fmt.Errorf("NATS users: the nkey of this node, %s, is not among them; "+
			"keep it in the file as long as the node runs", nodeKey)
	}
	reloadTwice := len(opts.Accounts) > 0
	if err := s.nats.current().ReloadOptions(opts); err != nil {
		return fmt.Errorf("NATS users: %w", err)
	}
	if !reloadTwice {
		return nil
	}
	// nats-server subscribes to the service imports of an account only when it starts, or on a
	// reload for which the account already exists. Without a second reload the users of a new
	// account would get no replies.
	if opts, err = s.options(); err != nil {
		return err
	}
	return s.nats.current().ReloadOptions(opts)
}

// ReloadTLS makes routes use the current CAs, and closes routes to servers that are no longer
// trusted.
func (s *Server) ReloadTLS() error {
	if s.trusted == nil || s.cluster.servers == 1 {
		return nil
	}
	s.reload.Lock()
	defer s.reload.Unlock()
	// Pinning certificates closes the routes with other ones. They are pinned for a moment only, so
	// that nodes that join later are trusted too.
	for _, pins := range []server.PinnedCertSet{s.trusted(), nil} {
		opts, err := s.options()
		if err != nil {
			return err
		}
		opts.Cluster.TLSPinnedCerts = pins
		if err := s.nats.current().ReloadOptions(opts); err != nil {
			return fmt.Errorf("NATS routes: %w", err)
		}
	}
	return nil
}
