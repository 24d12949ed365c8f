package security

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	caValid  = 10 * 365 * 24 * time.Hour
	validFor = 365 * 24 * time.Hour
	// clockSkew is how far the clock of another machine may be behind.
	clockSkew = time.Hour

	caName  = "ca"
	pemCert = "CERTIFICATE"
	pemKey  = "PRIVATE KEY"
)

// Authority issues the certificates of a cluster, from a folder.
type Authority struct {
	dir  string
	cert *x509.Certificate
	key  crypto.Signer
}

// OpenAuthority opens the CA in a folder. If there is none, it creates one and made is true.
func OpenAuthority(dir string) (a *Authority, made bool, err error) {
	a = &Authority{dir: dir}
	cert, key := exists(a.file(caName, ".crt")), exists(a.file(caName, ".key"))
	switch {
	case cert && key:
		return a, false, a.open()
	case cert:
		return nil, false, fmt.Errorf(
			"%s has ca.crt but no ca.key, so it cannot issue certificates; use the folder in which the CA was created",
			dir,
		)
	case key:
		return nil, false, fmt.Errorf(
			"%s has ca.key but no ca.crt; restore the CA's certificate or use an empty folder",
			dir,
		)
	}
	return a, true, a.make()
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func (a *Authority) file(name, kind string) string { return filepath.Join(a.dir, name+kind) }

func (a *Authority) open() error {
	pair, err := tls.LoadX509KeyPair(a.file(caName, ".crt"), a.file(caName, ".key"))
	if err != nil {
		return fmt.Errorf("CA in %s: %w", a.dir, err)
	}
	a.cert = pair.Leaf
	a.key = pair.PrivateKey.(crypto.Signer) // all private keys of the standard library implement it
	switch {
	case !a.cert.IsCA:
		return fmt.Errorf("%s is not a CA certificate", a.file(caName, ".crt"))
	case time.Now().After(a.cert.NotAfter):
		return fmt.Errorf(
			"the CA in %s expired on %s; create another in an empty folder",
			a.dir,
			a.cert.NotAfter.Format(time.DateOnly),
		)
	}
	return nil
}

func (a *Authority) make() error {
	if err := os.MkdirAll(a.dir, 0o700); err != nil {
		return err
	}
	t := &x509.Certificate{
		Subject: pkix.Name{
			CommonName: "Troupe CA",
		}, NotBefore: time.Now().Add(-clockSkew), NotAfter: time.Now().Add(caValid),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	if err := a.sign(caName, t); err != nil {
		return err
	}
	return a.open()
}

// Issue creates a node's certificate and key and replaces existing ones of that name. Hosts are
// names and IP addresses. Without hosts, those of the previous certificate are kept.
func (a *Authority) Issue(name string, hosts []string) (*x509.Certificate, error) {
	t := template(name)
	t.ExtKeyUsage = append(t.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	if before, err := readCert(a.file(name, ".crt")); err == nil && !forServer(before) {
		return nil, fmt.Errorf("%s has a client certificate; remove its files to make it a node", name)
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, h)
		}
	}
	if before, err := readCert(a.file(name, ".crt")); len(hosts) == 0 && err == nil {
		t.DNSNames, t.IPAddresses = before.DNSNames, before.IPAddresses
	}
	return t, a.sign(name, t)
}

// IssueClient creates the certificate and key of a NATS client and replaces existing ones of that
// name.
func (a *Authority) IssueClient(name string) (*x509.Certificate, error) {
	if before, err := readCert(a.file(name, ".crt")); err == nil && forServer(before) {
		return nil, fmt.Errorf("%s has a node certificate; choose another name for the client", name)
	}
	t := template(name)
	return t, a.sign(name, t)
}

func template(name string) *x509.Certificate {
	return &x509.Certificate{
		Subject: pkix.Name{
			CommonName: name,
		}, NotBefore: time.Now().Add(-clockSkew), NotAfter: time.Now().Add(validFor),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
}

// sign creates a key and its certificate, signed by the CA, or self-signed if there is no CA yet.
// It expires no later than the CA.
func (a *Authority) sign(name string, t *x509.Certificate) error {
	if a.cert != nil && name == caName {
		return errors.New("the name ca is reserved for the files of the CA")
	}
	if a.cert != nil && t.NotAfter.After(a.cert.NotAfter) {
		t.NotAfter = a.cert.NotAfter
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = t, key
	}
	cert, err := x509.CreateCertificate(rand.Reader, t, parent, key.Public(), signer)
	if err != nil {
		return fmt.Errorf("certificate for %s: %w", name, err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("key of %s: %w", name, err)
	}
	if err := replace(a.file(name, ".key"), 0o600, &pem.Block{Type: pemKey, Bytes: secret}); err != nil {
		return err
	}
	return replace(a.file(name, ".crt"), 0o644, &pem.Block{Type: pemCert, Bytes: cert})
}

// replace writes a PEM file atomically.
func replace(path string, mode os.FileMode, block *pem.Block) error {
	return replaceWith(path, mode, func(f *os.File) error { return pem.Encode(f, block) })
}

// replaceWith writes a file atomically: readers see either the old or the new content.
func replaceWith(path string, mode os.FileMode, write func(*os.File) error) error {
	next, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // readable by the owner only
	if err != nil {
		return err
	}
	err = errors.Join(write(next), next.Chmod(mode), next.Close())
	if err == nil {
		err = os.Rename(next.Name(), path)
	}
	if err != nil {
		_ = os.Remove(next.Name())
	}
	return err
}

// Show reads the certificates in a folder, the CA's first.
func Show(dir string) ([]*x509.Certificate, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.crt"))
	if err != nil {
		return nil, err
	}
	var all []*x509.Certificate
	for _, file := range files {
		c, err := readCert(file)
		if err != nil {
			return nil, err
		}
		if c.IsCA {
			all = append([]*x509.Certificate{c}, all...)
		} else {
			all = append(all, c)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no certificates in %s; create them with --out", dir)
	}
	return all, nil
}

// Hosts returns the names and addresses that a certificate is valid for.
func Hosts(c *x509.Certificate) []string {
	hosts := append([]string(nil), c.DNSNames...)
	for _, ip := range c.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	return hosts
}

func hostList(c *x509.Certificate) string { return "valid for " + strings.Join(Hosts(c), ", ") }

func readCert(file string) (*x509.Certificate, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(b)
	if block == nil || block.Type != pemCert {
		return nil, fmt.Errorf("%s does not start with a certificate", file)
	}
	return x509.ParseCertificate(block.Bytes)
}
