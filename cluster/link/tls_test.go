package link_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"testing"
	"time"

	"troupe/cluster/link"
)

// authority signs certificates of nodes.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

type identity struct{ server, client *tls.Config }

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{}
	a.cert, a.key = certify(
		t,
		&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign},
		nil,
	)
	return a
}

// certify signs a template with signer, or self-signs it if signer is nil.
func certify(t testing.TB, template *x509.Certificate, signer *authority) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber, template.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(time.Hour)
	if signer == nil {
		signer = &authority{template, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, signer.cert, &key.PublicKey, signer.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

// issue creates the TLS configurations of a node on loopback that trusts an authority. If by is
// nil, it creates a new one.
func issue(t testing.TB, by *authority) identity {
	t.Helper()
	if by == nil {
		by = newAuthority(t)
	}
	cert, key := certify(t, &x509.Certificate{
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, by)
	pool := x509.NewCertPool()
	pool.AddCert(by.cert)
	own := []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key}}
	return identity{
		server: &tls.Config{
			Certificates: own,
			ClientCAs:    pool,
			ClientAuth:   tls.RequireAndVerifyClientCert,
			MinVersion:   tls.VersionTLS13,
		},
		client: &tls.Config{Certificates: own, RootCAs: pool, MinVersion: tls.VersionTLS13},
	}
}

func TestMutualTLS(t *testing.T) {
	ca := newAuthority(t)
	secured := func(id identity) func(*link.Config) {
		return func(c *link.Config) {
			c.ServerTLS, c.ClientTLS = id.server, func(net.Conn) *tls.Config { return id.client }
		}
	}
	a, b := start(t, secured(issue(t, ca))), start(t, secured(issue(t, ca)))
	stranger := issue(t, nil)
	stranger.client.RootCAs = issue(t, ca).client.RootCAs // it trusts us, but we do not trust it
	c, plain := start(t, secured(stranger)), start(t)
	join(a, b, c, plain)
	_, to := b.echo(t)
	a.waitReachable(t, to)
	wantDeadLetter(t, c.ask(to, "signed by someone else"))
	wantDeadLetter(t, plain.ask(to, "not signed at all"))
	_, of := c.echo(t)
	wantDeadLetter(t, a.ask(of, "its server is not one of ours"))
}
