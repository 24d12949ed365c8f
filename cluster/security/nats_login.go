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

// secure makes a connection use the identity. Each connection is tracked, and reads the CAs again when it is dialled.
func (i *Identity) secure(o *nats.Options) error {
	d := &dialer{options: o}
	o.Secure, o.TLSConfig = true, i.client(d.last)
	o.RootCAsCB = func() (*x509.CertPool, error) { return i.trust.cas.Get(), nil }
	o.CustomDialer = d
	return nil
}

// dialer remembers the socket of a connection to NATS: it has one at a time.
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

// Public returns the public nkey of the login; empty where it has none.
func (l Login) Public() (string, error) {
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
