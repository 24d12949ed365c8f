package security

import (
	"fmt"

	"github.com/nats-io/nats.go"
)

// Login is how a client proves to a NATS server who it is. Everything may be empty.
type Login struct {
	TLS   *Identity
	Creds string // file with a JWT and its nkey seed, as nsc makes it
	Nkey  string // file with an nkey seed
}

// Options are the login as options of a connection.
func (l Login) Options() ([]nats.Option, error) {
	var opts []nats.Option
	if l.TLS != nil {
		opts = append(opts, nats.Secure(l.TLS.Client()))
	}
	if l.Creds != "" {
		opts = append(opts, nats.UserCredentials(l.Creds))
	}
	if l.Nkey != "" {
		nkey, err := nats.NkeyOptionFromSeed(l.Nkey)
		if err != nil {
			return nil, fmt.Errorf("nkey seed %s: %w", l.Nkey, err)
		}
		opts = append(opts, nkey)
	}
	return opts, nil
}
