package natsd

import (
	"fmt"

	"github.com/nats-io/nats-server/v2/server"
)

// users takes from a configuration of nats-server who may connect, and what each may do.
func (cfg *Config) users(opts *server.Options) error {
	if cfg.UsersFile == "" {
		return nil
	}
	file, err := server.ProcessConfigFile(cfg.UsersFile)
	if err != nil {
		return fmt.Errorf("users of the nats-server: %w", err)
	}
	opts.Users, opts.Nkeys, opts.Accounts = file.Users, file.Nkeys, file.Accounts
	opts.Username, opts.Password, opts.Authorization, opts.NoAuthUser = file.Username, file.Password, file.Authorization, file.NoAuthUser
	opts.SystemAccount, opts.TrustedOperators, opts.AccountResolver = file.SystemAccount, file.TrustedOperators, file.AccountResolver
	if len(opts.Users)+len(opts.Nkeys)+len(opts.TrustedOperators) == 0 && opts.Username == "" && opts.Authorization == "" {
		return fmt.Errorf("users of the nats-server: %s names none; see authorization in the documentation of nats-server", cfg.UsersFile)
	}
	return nil
}
