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

// Files names the PEM files of an identity. Intermediate certificates may follow a certificate.
type Files struct {
	Cert, Key, CA string
	Revoked       string // fingerprints of revoked certificates; may be empty
}

// Identity is a node's certificate together with the CAs that it trusts.
type Identity struct {
	pair  *reload.Value[*tls.Certificate]
	trust *trust
}

// expiryWarning is the remaining lifetime below which a certificate is logged as a warning.
const expiryWarning = 14 * 24 * time.Hour

// Load reads and checks a node's identity: peers with the same CA must accept it. Errors name the
// file and the fault.
func Load(f Files, log zerolog.Logger) (*Identity, error) {
	return load(f, log, true)
}

// LoadClient is like Load, for a client of NATS. It also accepts a certificate of IssueClient.
func LoadClient(f Files, log zerolog.Logger) (*Identity, error) {
	return load(f, log, false)
}

func load(f Files, log zerolog.Logger, node bool) (*Identity, error) {
	trust, err := newTrust(f, log)
	if err != nil {
		return nil, err
	}
	check := func(chain []*x509.Certificate) error { return f.verify(chain, trust.cas.Get(), node) }
	pair, err := watch(f, log, check) // check again when the CAs change: an added CA may have issued the certificate
	if err != nil {
		return nil, err
	}
	return &Identity{pair, trust}, nil
}

// HTTPS returns the configuration of a server that does not ask clients for a certificate.
func HTTPS(certFile, keyFile string, log zerolog.Logger) (*tls.Config, error) {
	f := Files{Cert: certFile, Key: keyFile}
	pair, err := watch(f, log, func(chain []*x509.Certificate) error { return checkLeaf(chain[0], true) })
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: serve(pair),
		NextProtos:     []string{"h2", "http/1.1"},
	}, nil
}

// Server returns the configuration of a server for NATS clients, which must have a certificate of
// the CA.
func (i *Identity) Server() *tls.Config { return i.server(false) }

// Node returns the configuration of a server for other nodes. The peer's certificate must be of the
// CA and allow use as a server, which excludes client certificates.
func (i *Identity) Node() *tls.Config { return i.server(true) }

// server verifies each connection against the current CAs and tracks it.
func (i *Identity) server(node bool) *tls.Config {
	accept := func(conn net.Conn) *tls.Config {
		return &tls.Config{
			MinVersion: tls.VersionTLS13, GetCertificate: serve(i.pair), ClientCAs: i.trust.cas.Get(),
			ClientAuth:             tls.RequireAndVerifyClientCert,
			SessionTicketsDisabled: true, // a resumed session would not be verified against the CAs
			VerifyConnection: func(c tls.ConnectionState) error {
				return i.trust.admit(conn, c.PeerCertificates, node)
			},
		}
	}
	cfg := accept(nil)
	cfg.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) { return accept(hello.Conn), nil }
	return cfg
}

// ClientOf returns the configuration of a client. The server must present a certificate of the CA for
// the dialled host. The configuration uses the CAs at the time of the call. conn, if not nil, is
// closed when the server's certificate is no longer trusted.
func (i *Identity) ClientOf(conn net.Conn) *tls.Config {
	return i.client(func() net.Conn { return conn })
}

func (i *Identity) client(conn func() net.Conn) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, GetClientCertificate: present(i.pair), RootCAs: i.trust.cas.Get(),
		VerifyConnection: func(c tls.ConnectionState) error { return i.trust.admit(conn(), c.PeerCertificates, false) },
	}
}

// Peer combines Node and Client for the routes of a nats-server, which use one configuration for
// both. Like Client, it must be called again when the CAs change.
func (i *Identity) Peer() *tls.Config {
	cfg := i.Node()
	cfg.GetClientCertificate, cfg.RootCAs = present(i.pair), i.trust.cas.Get()
	return cfg
}

// CheckHost checks that the certificate is valid for a host, so that peers can reach this node by
// that name.
func (i *Identity) CheckHost(host string) error {
	leaf := i.pair.Get().Leaf
	if err := leaf.VerifyHostname(host); err != nil {
		return fmt.Errorf(
			"the certificate of %s is not valid for host %s (%s); issue one with --hosts",
			leaf.Subject.CommonName,
			host,
			hostList(leaf),
		)
	}
	return nil
}

// forServer reports whether a certificate allows use as a server, explicitly or by stating no use.
func forServer(c *x509.Certificate) bool {
	return len(c.ExtKeyUsage)+len(c.UnknownExtKeyUsage) == 0 ||
		slices.Contains(
			c.ExtKeyUsage,
			x509.ExtKeyUsageServerAuth,
		) || slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageAny)
}

func serve(pair *reload.Value[*tls.Certificate]) func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair.Get(), nil }
}

func present(pair *reload.Value[*tls.Certificate]) func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	return func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair.Get(), nil }
}

// watch reads a certificate and its key, now and whenever they change.
func watch(
	f Files,
	log zerolog.Logger,
	check func(chain []*x509.Certificate) error,
) (*reload.Value[*tls.Certificate], error) {
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
		if time.Until(pair.Leaf.NotAfter) < expiryWarning {
			until = log.Warn()
		}
		until.Str(
			"file",
			f.Cert,
		).Str(
			"subject",
			pair.Leaf.Subject.CommonName,
		).Time(
			"until",
			pair.Leaf.NotAfter,
		).Msg(
			"certificate in use",
		)
		return &pair, nil
	}
	failed := func(err error) { log.Error().Err(err).Msg("changed certificate rejected") }
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

// checkLeaf checks everything that does not depend on a CA.
func checkLeaf(leaf *x509.Certificate, server bool) error {
	now := time.Now()
	switch {
	case now.After(leaf.NotAfter):
		return fmt.Errorf("expired on %s; issue a new one", leaf.NotAfter.Format(time.DateOnly))
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("not valid before %s; check this machine's clock", leaf.NotBefore.Format(time.DateTime))
	case server && !forServer(leaf):
		return notFor("server")
	case server && len(leaf.DNSNames)+len(leaf.IPAddresses) == 0:
		return errors.New("it names no host, so peers cannot verify it; issue one with subject alternative names")
	}
	return nil
}

// verify checks a certificate as its peers will: that of a node as a server and as a client.
func (f Files) verify(chain []*x509.Certificate, cas *x509.CertPool, node bool) error {
	if err := checkLeaf(chain[0], node); err != nil {
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
		_, err := chain[0].Verify(
			x509.VerifyOptions{Roots: cas, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{use}},
		)
		if stranger := (x509.UnknownAuthorityError{}); errors.As(err, &stranger) {
			return fmt.Errorf(
				"issued by %q, not by the CA in %s; nodes need certificates of one CA",
				chain[0].Issuer.CommonName,
				f.CA,
			)
		}
		if invalid := (x509.CertificateInvalidError{}); errors.As(err, &invalid) &&
			invalid.Reason == x509.IncompatibleUsage {
			return notFor(name)
		}
		if err != nil {
			return fmt.Errorf("verify with the CA in %s: %w", f.CA, err)
		}
	}
	return nil
}

func notFor(use string) error {
	return fmt.Errorf(
		"it does not allow use as a %s, but a node is both client and server; issue one with both extended key "+
			"usages, as \"troupe certs\" does without --client",
		use,
	)
}

// readCAs reads the trusted CA certificates.
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
			return nil, fmt.Errorf("CA %s: block %q is not a certificate", file, block.Type)
		}
		if !c.IsCA {
			return nil, fmt.Errorf(
				"CA %s: the certificate of %q is not a CA certificate; set the CA's file",
				file,
				c.Subject.CommonName,
			)
		}
		pool.AddCert(c)
		found++
	}
	if found == 0 {
		return nil, fmt.Errorf("CA %s: no PEM certificate found", file)
	}
	return pool, nil
}
