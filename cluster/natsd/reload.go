package natsd

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"troupe/internal/reload"
)

// usersCheckInterval is how often the server looks whether the users file has changed.
const usersCheckInterval = time.Second

// watchUsers makes the server take a changed users file, until Stop. Connections of users that
// were removed are closed.
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
		cfg.Log.Info().Str("file", cfg.UsersFile).Msg("NATS users in use")
		cfg.usersReloaded(nil)
		return struct{}{}, nil
	}
	failed := func(err error) {
		cfg.Log.Error().Err(err).Msg("changed NATS users not taken")
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

// reloadUsers replaces the users by those of the file, unless the node would be locked out.
func (s *Server) reloadUsers(self string) error {
	s.reload.Lock()
	defer s.reload.Unlock()
	opts, err := s.options()
	if err != nil {
		return err
	}
	known := func(u *server.NkeyUser) bool { return u.Nkey == self }
	if self != "" && len(opts.TrustedOperators) == 0 && !slices.ContainsFunc(opts.Nkeys, known) {
		return fmt.Errorf(
			"NATS users: the nkey of this node, %s, is not among them; keep it in the file as long as the node runs",
			self,
		)
	}
	again := len(opts.Accounts) > 0
	if err := s.nats.current().ReloadOptions(opts); err != nil {
		return fmt.Errorf("NATS users: %w", err)
	}
	if !again {
		return nil
	}
	// nats-server subscribes to the service imports of an account only at its start, or at a reload
	// that finds the account there. Without a second reload the users of an account that was added
	// get no answers.
	if opts, err = s.options(); err != nil {
		return err
	}
	return s.nats.current().ReloadOptions(opts)
}

// ReloadTLS makes routes use the CAs of now, and closes those to servers that are no longer
// trusted.
func (s *Server) ReloadTLS() error {
	if s.trusted == nil || s.cluster.servers == 1 {
		return nil
	}
	s.reload.Lock()
	defer s.reload.Unlock()
	// A change of the pinned certificates closes the routes that have others. They are pinned for
	// that moment only: a certificate of a node that is yet to come is trusted too.
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
