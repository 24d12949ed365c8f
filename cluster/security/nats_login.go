package security

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// Login holds a client's credentials for a NATS server. All fields are optional.
type Login struct {
	TLS   *Identity
	Creds string // file with a JWT and its nkey seed, as nsc writes it
	Nkey  string // file with an nkey seed
}

// Options returns the login as connection options.
func (l Login) Options() ([]nats.Option, error) {
	var opts []nats.Option
	if l.TLS != nil {
		opts = append(opts, l.TLS.secure)
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

// secure makes connections use the identity. Each connection is tracked, and each dial uses the
// current CAs.
func (i *Identity) secure(o *nats.Options) error {
	d := &dialer{options: o}
	o.Secure, o.TLSConfig = true, i.client(d.last)
	o.RootCAsCB = func() (*x509.CertPool, error) { return i.trust.cas.Get(), nil }
	o.CustomDialer = d
	return nil
}

// dialer remembers the socket of a NATS connection, which has one at a time.
type dialer struct {
	options *nats.Options
	mu      sync.Mutex
	conn    net.Conn
}

// Dial implements nats.CustomDialer.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	conn, err := net.DialTimeout(network, address, d.options.Timeout)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conn = conn
	return conn, nil
}

func (d *dialer) last() net.Conn {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.conn
}

// PublicKey returns the public nkey of the login, or "" if it has none.
func (l Login) PublicKey() (string, error) {
	if l.Nkey == "" {
		return "", nil
	}
	seed, err := os.ReadFile(l.Nkey)
	if err != nil {
		return "", err
	}
	pair, err := nkeys.ParseDecoratedNKey(seed)
	if err != nil {
		return "", fmt.Errorf("nkey seed %s: %w", l.Nkey, err)
	}
	defer pair.Wipe()
	return pair.PublicKey()
}

// Remedy returns advice about a failed connection to NATS, or otherwise if the failure is not about
// credentials.
func Remedy(err error, otherwise string) string {
	switch {
	case errors.Is(err, nats.ErrTLS), errors.Is(err, nats.ErrSecureConnRequired):
		return "the server requires certificates of its CA: set --tls-ca, --tls-cert and --tls-key"
	case errors.Is(err, nats.ErrSecureConnWanted):
		return "the server has no TLS: remove --tls-ca, --tls-cert and --tls-key, or enable TLS there"
	case errors.Is(err, nats.ErrNkeysNotSupported):
		return "the server has no users with nkeys: remove --nats-nkey, or add the public nkey to its users"
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired):
		return "the server does not know this user, or the secret is wrong: set --nats-nkey or --nats-creds of one " +
			"of its users, or correct user and password in the URL"
	}
	return otherwise
}

// NewNkey writes the seed of a new nkey to a file, which must not exist, and returns its public
// key.
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
