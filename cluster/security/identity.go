package security

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"troupe/internal/reload"
)

// Files name what makes an identity, in PEM. Intermediate certificates may follow a certificate.
type Files struct {
	Cert, Key, CA string
	Revoked       string // fingerprints of revoked certificates; empty: none
}

// Identity is the certificate of a node, and the certificates that it trusts.
type Identity struct {
	pair  *reload.Value[*tls.Certificate]
	trust *trust
}

// soon is how long before it expires a certificate is logged as a warning.
const soon = 14 * 24 * time.Hour

// Load reads and checks an identity: others with the same CA must accept it. Its errors name the file and what is wrong with it.
func Load(f Files, log zerolog.Logger) (*Identity, error) {
	return load(f, log, true)
}

// LoadClient is Load for a client of NATS, to which a certificate of IssueClient is enough.
func LoadClient(f Files, log zerolog.Logger) (*Identity, error) {
	return load(f, log, false)
}

func load(f Files, log zerolog.Logger, node bool) (*Identity, error) {
	trust, err := newTrust(f, log)
	if err != nil {
		return nil, err
	}
	check := func(chain []*x509.Certificate) error { return f.trusted(chain, trust.cas.Get(), node) }
	pair, err := watch(f, log, check) // also when the CAs change: the certificate may be one of a CA that was added
	if err != nil {
		return nil, err
	}
	return &Identity{pair, trust}, nil
}

// HTTPS returns the configuration of a server that asks its clients for no certificate.
func HTTPS(certFile, keyFile string, log zerolog.Logger) (*tls.Config, error) {
	f := Files{Cert: certFile, Key: keyFile}
	pair, err := watch(f, log, func(chain []*x509.Certificate) error { return current(chain[0], true) })
	if err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: serve(pair), NextProtos: []string{"h2", "http/1.1"}}, nil
}

// Server is for NATS clients: only clients with a certificate of the CA are served.
func (i *Identity) Server() *tls.Config { return i.server(false) }

// Node is for other nodes: the peer's certificate must be one of the CA, and for use as a server too. A client's certificate
// opens nothing here.
func (i *Identity) Node() *tls.Config { return i.server(true) }

// server verifies each connection against the CAs of that moment, and tracks it.
func (i *Identity) server(node bool) *tls.Config {
	accept := func(conn net.Conn) *tls.Config {
		return &tls.Config{
			MinVersion: tls.VersionTLS13, GetCertificate: serve(i.pair), ClientCAs: i.trust.cas.Get(), ClientAuth: tls.RequireAndVerifyClientCert,
			SessionTicketsDisabled: true, // a resumed session would not be verified against the CAs
			VerifyConnection:       func(c tls.ConnectionState) error { return i.trust.admit(conn, c.PeerCertificates, node) },
		}
	}
	cfg := accept(nil)
	cfg.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) { return accept(hello.Conn), nil }
	return cfg
}

// Client is for dialling: the server must show a certificate of the CA for the host that was dialled. The configuration trusts
// the CAs of the moment at which it is made.
func (i *Identity) Client() *tls.Config { return i.ClientOf(nil) }

// ClientOf is Client for one connection, which is closed when the server's certificate is no longer trusted.
func (i *Identity) ClientOf(conn net.Conn) *tls.Config {
	return i.client(func() net.Conn { return conn })
}

func (i *Identity) client(conn func() net.Conn) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, GetClientCertificate: present(i.pair), RootCAs: i.trust.cas.Get(),
		VerifyConnection: func(c tls.ConnectionState) error { return i.trust.admit(conn(), c.PeerCertificates, false) },
	}
}

// Peer is Node and Client in one, for the routes of a nats-server, which take one configuration for both. Like that of Client, it
// must be made again when the CAs change.
func (i *Identity) Peer() *tls.Config {
	cfg := i.Node()
	cfg.GetClientCertificate, cfg.RootCAs = present(i.pair), i.trust.cas.Get()
	return cfg
}

// Covers checks that the certificate is for a host, so that others can reach this node under it.
func (i *Identity) Covers(host string) error {
	leaf := i.pair.Get().Leaf
	if err := leaf.VerifyHostname(host); err != nil {
		return fmt.Errorf("the certificate of %s is not for host %s (%s); make one that is, with --hosts", leaf.Subject.CommonName, host, hostList(leaf))
	}
	return nil
}

// forServer reports whether a certificate is for use as a server: it says so, or leaves it open.
func forServer(c *x509.Certificate) bool {
	return len(c.ExtKeyUsage)+len(c.UnknownExtKeyUsage) == 0 ||
		slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageServerAuth) || slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageAny)
}

func serve(pair *reload.Value[*tls.Certificate]) func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair.Get(), nil }
}

func present(pair *reload.Value[*tls.Certificate]) func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	return func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair.Get(), nil }
}

// watch reads a certificate and its key, now and whenever they change.
func watch(f Files, log zerolog.Logger, check func(chain []*x509.Certificate) error) (*reload.Value[*tls.Certificate], error) {
	read := func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, fmt.Errorf("certificate %s with key %s: %w", f.Cert, f.Key, err)
		}
		chain, err := parse(pair.Certificate)
		if err == nil {
			err = check(chain)
		}
		if err != nil {
			return nil, fmt.Errorf("certificate %s: %w", f.Cert, err)
		}
		until := log.Info()
		if time.Until(pair.Leaf.NotAfter) < soon {
			until = log.Warn()
		}
		until.Str("file", f.Cert).Str("subject", pair.Leaf.Subject.CommonName).Time("until", pair.Leaf.NotAfter).Msg("certificate in use")
		return &pair, nil
	}
	failed := func(err error) { log.Error().Err(err).Msg("changed certificate not taken") }
	files := []string{f.Cert, f.Key}
	if f.CA != "" {
		files = append(files, f.CA)
	}
	return reload.New(read, failed, files...)
}

func parse(chain [][]byte) (certs []*x509.Certificate, err error) {
	for _, der := range chain {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, err
		}
		certs = append(certs, c)
	}
	return certs, nil
}

// current checks what needs no CA.
func current(leaf *x509.Certificate, server bool) error {
	now := time.Now()
	switch {
	case now.After(leaf.NotAfter):
		return fmt.Errorf("it expired on %s; make a new one", leaf.NotAfter.Format(time.DateOnly))
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("it is not valid before %s; is this machine's clock right?", leaf.NotBefore.Format(time.DateTime))
	case server && !forServer(leaf):
		return notFor("server")
	case server && len(leaf.DNSNames)+len(leaf.IPAddresses) == 0:
		return errors.New("it names no host, so nobody could verify it; make one with subject alternative names")
	}
	return nil
}

// trusted checks a certificate as its peers will: those of a node as server and as client.
func (f Files) trusted(chain []*x509.Certificate, cas *x509.CertPool, node bool) error {
	if err := current(chain[0], node); err != nil {
		return err
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	uses := map[x509.ExtKeyUsage]string{x509.ExtKeyUsageClientAuth: "client"}
	if node {
		uses[x509.ExtKeyUsageServerAuth] = "server"
	}
	for use, name := range uses {
		_, err := chain[0].Verify(x509.VerifyOptions{Roots: cas, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{use}})
		if stranger := (x509.UnknownAuthorityError{}); errors.As(err, &stranger) {
			return fmt.Errorf("it is not of the CA in %s, but of %q; nodes need certificates of one CA", f.CA, chain[0].Issuer.CommonName)
		}
		if invalid := (x509.CertificateInvalidError{}); errors.As(err, &invalid) && invalid.Reason == x509.IncompatibleUsage {
			return notFor(name)
		}
		if err != nil {
			return fmt.Errorf("with the CA in %s: %w", f.CA, err)
		}
	}
	return nil
}

func notFor(use string) error {
	return fmt.Errorf("it is not for use as a %s, and a node is both client and server; make one with both extended key usages, as \"node certs\" does without --client", use)
}

// readCAs reads the certificates that are trusted.
func readCAs(file string) (*x509.CertPool, error) {
	rest, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("CA: %w", err)
	}
	pool, found := x509.NewCertPool(), 0
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if block.Type != pemCert || err != nil {
			return nil, fmt.Errorf("CA %s: it has a block %q that is no certificate", file, block.Type)
		}
		if !c.IsCA {
			return nil, fmt.Errorf("CA %s: the certificate of %q is no CA's; name the CA's file", file, c.Subject.CommonName)
		}
		pool.AddCert(c)
		found++
	}
	if found == 0 {
		return nil, fmt.Errorf("CA %s: there is no certificate in it, in PEM", file)
	}
	return pool, nil
}
