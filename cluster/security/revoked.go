package security

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Revoked is a set of certificates that are rejected although a CA has signed them. A nil Revoked
// is empty.
type Revoked struct{ sums map[[sha256.Size]byte]bool }

const revokedHead = "# Revoked certificates: SHA-256 fingerprints, one a line.\n" +
	"# Copy this file to every node, for --tls-revoked.\n"

// Has reports whether a certificate is revoked.
func (r *Revoked) Has(c *x509.Certificate) bool { return r != nil && r.sums[sha256.Sum256(c.Raw)] }

// HasAny reports whether one of the certificates is revoked.
func (r *Revoked) HasAny(chain []*x509.Certificate) bool { return slices.ContainsFunc(chain, r.Has) }

// ReadRevoked reads a file with one SHA-256 fingerprint per line, with or without colons. Comments
// start with #.
func ReadRevoked(file string) (*Revoked, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("revoked certificates: %w", err)
	}
	r, n := &Revoked{map[[sha256.Size]byte]bool{}}, 0
	for line := range strings.Lines(string(text)) {
		n++
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		sum, err := hex.DecodeString(strings.ReplaceAll(line, ":", ""))
		if err != nil || len(sum) != sha256.Size {
			return nil, fmt.Errorf("revoked certificates: %s, line %d: not a SHA-256 fingerprint; "+
				"write 64 hexadecimal digits, as \"troupe certs --revoke\" does", file, n)
		}
		r.sums[[sha256.Size]byte(sum)] = true
	}
	return r, nil
}

// Revoke adds the certificate of a name to the file of revoked certificates in the authority's
// folder. It returns the file and whether the certificate was already listed.
func Revoke(dir, name string) (file string, known bool, err error) {
	a := &Authority{dir: dir}
	c, err := readCert(a.file(name, ".crt"))
	if err != nil {
		return "", false, fmt.Errorf("certificate of %s: %w", name, err)
	}
	file = a.file("revoked", "")
	text, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		text, err = []byte(revokedHead), nil
	} else if err == nil {
		var before *Revoked
		if before, err = ReadRevoked(file); err == nil && before.Has(c) {
			return file, true, nil
		}
	}
	if err != nil {
		return "", false, err
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	text = fmt.Appendf(text, "%x # %s, issued %s\n", sha256.Sum256(c.Raw), name, c.NotBefore.Format("2006-01-02"))
	return file, false, replaceWith(file, 0o644, func(f *os.File) error {
		_, err := f.Write(text)
		return err
	})
}
