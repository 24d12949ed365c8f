package security

import (
	"errors"
	"fmt"
	"os"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
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

// Remedy says what to do about a connection to NATS that failed; otherwise is for where that has nothing to do with who one is.
func Remedy(err error, otherwise string) string {
	switch {
	case errors.Is(err, nats.ErrTLS), errors.Is(err, nats.ErrSecureConnRequired):
		return "it asks for certificates of its CA: give --tls-ca, --tls-cert and --tls-key"
	case errors.Is(err, nats.ErrSecureConnWanted):
		return "it has no TLS: leave --tls-ca, --tls-cert and --tls-key out, or give them to it too"
	case errors.Is(err, nats.ErrAuthorization):
		return "it does not know you: give --nats-nkey or --nats-creds, of a user that it has"
	}
	return otherwise
}

// NewNkey writes the seed of a new nkey to a file, which must not be there yet, and returns its public key.
func NewNkey(file string) (public string, err error) {
	user, err := nkeys.CreateUser()
	if err != nil {
		return "", err
	}
	seed, err := user.Seed()
	if err != nil {
		return "", err
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", fmt.Errorf("%w; choose another file", err)
	}
	if _, err := f.Write(append(seed, '\n')); err != nil {
		f.Close()
		return "", err
	}
	if err := f.Close(); err != nil {
		return "", err
	}
	return user.PublicKey()
}
