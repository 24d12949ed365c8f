package main

import (
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"troupe/cluster/reply"
	"troupe/cluster/security"
)

// natsLogin holds the NATS credentials of a command. Its flags and environment variables have the
// same names as for "troupe up".
type natsLogin struct {
	TLSCert   string `env:"TROUPE_TLS_CERT" placeholder:"FILE" type:"path" help:"${logincert}"`
	TLSKey    string `env:"TROUPE_TLS_KEY" placeholder:"FILE" type:"path" help:"Private key of --tls-cert."`
	TLSCA     string `name:"tls-ca" env:"TROUPE_TLS_CA" placeholder:"FILE" type:"path" help:"CA of the nodes."`
	NATSCreds string `env:"TROUPE_NATS_CREDS" placeholder:"FILE" type:"path" help:"NATS credentials, from nsc."`
	NATSNkey  string `env:"TROUPE_NATS_NKEY" placeholder:"FILE" type:"path" help:"nkey seed, instead of --nats-creds."`

	NATSInboxPrefix string `env:"TROUPE_NATS_INBOX_PREFIX" placeholder:"PREFIX" help:"${loginprefix}"`
}

// options returns the NATS connection options for the credentials.
func (l natsLogin) options() ([]nats.Option, error) {
	if someNotAll(l.TLSCert, l.TLSKey, l.TLSCA) {
		return nil, &usageError{errors.New("--tls-cert, --tls-key and --tls-ca go together; give all three")}
	}
	who := security.Login{Creds: l.NATSCreds, Nkey: l.NATSNkey}
	if l.TLSCert != "" {
		var err error
		files := security.Files{Cert: l.TLSCert, Key: l.TLSKey, CA: l.TLSCA}
		if who.TLS, err = security.LoadClient(files, zerolog.Nop()); err != nil {
			return nil, err
		}
	}
	opts, err := who.Options()
	if err != nil || l.NATSInboxPrefix == "" {
		return opts, err
	}
	if err := reply.CheckPrefix(l.NATSInboxPrefix); err != nil {
		return nil, &usageError{fmt.Errorf("--nats-inbox-prefix: %w", err)}
	}
	return append(opts, nats.CustomInboxPrefix(l.NATSInboxPrefix)), nil
}
