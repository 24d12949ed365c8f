package main

import (
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"troupe/cluster/reply"
	"troupe/cluster/security"
)

// login is how a command says to NATS who it is. Options and environment are called as those of "troupe up".
type natsLogin struct {
	TLSCert   string `env:"TROUPE_TLS_CERT" placeholder:"FILE" type:"path" help:"Certificate, where NATS asks for one; \"troupe certs\" makes it."`
	TLSKey    string `env:"TROUPE_TLS_KEY" placeholder:"FILE" type:"path" help:"Its key."`
	TLSCA     string `name:"tls-ca" env:"TROUPE_TLS_CA" placeholder:"FILE" type:"path" help:"The CA of the nodes."`
	NATSCreds string `env:"TROUPE_NATS_CREDS" placeholder:"FILE" type:"path" help:"Credentials for NATS, as nsc makes them."`
	NATSNkey  string `env:"TROUPE_NATS_NKEY" placeholder:"FILE" type:"path" help:"Or an nkey seed."`

	NATSInboxPrefix string `env:"TROUPE_NATS_INBOX_PREFIX" placeholder:"PREFIX" help:"Inbox prefix of the user, where its permissions ask for one: _INBOX_anna."`
}

// options are those of a connection.
func (l natsLogin) options() ([]nats.Option, error) {
	if someNotAll(l.TLSCert, l.TLSKey, l.TLSCA) {
		return nil, &usageError{errors.New("--tls-cert, --tls-key and --tls-ca go together; give all three")}
	}
	who := security.Login{Creds: l.NATSCreds, Nkey: l.NATSNkey}
	if l.TLSCert != "" {
		var err error
		if who.TLS, err = security.LoadClient(security.Files{Cert: l.TLSCert, Key: l.TLSKey, CA: l.TLSCA}, zerolog.Nop()); err != nil {
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
