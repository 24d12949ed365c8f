package security

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"troupe/internal/reload"
)

// checkEvery is the interval at which Watch checks the files.
const checkEvery = time.Second

// trust decides which certificates are accepted and tracks the connections that use them.
type trust struct {
	log     zerolog.Logger
	cas     *reload.Value[*x509.CertPool]
	revoked *reload.Value[*Revoked] // nil means none
	open    openConns

	mu           sync.Mutex
	checkedCAs   *x509.CertPool // CAs of the last recheck of open connections
	checkedList  *Revoked
	changed      []func(error)
	peers        map[string][]*x509.Certificate // node certificates by hash of the public key
	peersAllowed map[string]struct{}
}

func newTrust(f Files, log zerolog.Logger) (*trust, error) {
	t := &trust{log: log, peers: map[string][]*x509.Certificate{}}
	read := func() (*x509.CertPool, error) { return readCAs(f.CA) }
	_, err := read() // checked here because the error names the file
	if err != nil {
		return nil, err
	}
	if t.cas, err = reload.New(read, t.failed("changed CA rejected"), f.CA); err != nil {
		return nil, err
	}
	if f.Revoked != "" {
		read := func() (*Revoked, error) { return ReadRevoked(f.Revoked) }
		if _, err := read(); err != nil {
			return nil, err
		}
		failed := t.failed("changed list of revoked certificates rejected")
		if t.revoked, err = reload.New(read, failed, f.Revoked); err != nil {
			return nil, err
		}
	}
	t.checkedCAs, t.checkedList = t.cas.Get(), t.list()
	return t, nil
}

func (t *trust) failed(what string) func(error) {
	return func(err error) {
		t.log.Error().Err(err).Msg(what)
		t.notify(fmt.Errorf("%s: %w", what, err))
	}
}

func (t *trust) list() *Revoked {
	if t.revoked == nil {
		return nil
	}
	return t.revoked.Get()
}

// verify checks a chain against the current CAs: it needs a path to a CA without a revoked
// certificate.
func (t *trust) verify(chain []*x509.Certificate) error {
	if len(chain) == 0 {
		return errors.New("the peer showed no certificate")
	}
	list := t.list()
	if list.Has(chain[0]) {
		return fmt.Errorf("the certificate of %s is revoked", chain[0].Subject.CommonName)
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	paths, err := chain[0].Verify(
		x509.VerifyOptions{
			Roots:         t.cas.Get(),
			Intermediates: between,
			KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
		},
	)
	if err != nil {
		return fmt.Errorf("the certificate of %s is not trusted: %w", chain[0].Subject.CommonName, err)
	}
	for _, path := range paths {
		if !list.HasAny(path) {
			return nil
		}
	}
	return fmt.Errorf("the certificate of %s is issued by a revoked CA", chain[0].Subject.CommonName)
}

// admit verifies the peer of a connection and tracks the connection, which may be nil. It tracks
// first, so that a change during the verification is not missed.
func (t *trust) admit(conn net.Conn, chain []*x509.Certificate, node bool) error {
	if len(chain) > 0 && node && !forServer(chain[0]) {
		return fmt.Errorf(
			"the certificate of %s is a client certificate, but only nodes may connect here",
			chain[0].Subject.CommonName,
		)
	}
	if conn != nil {
		t.open.add(conn, chain)
	}
	if err := t.verify(chain); err != nil {
		t.open.remove(conn)
		return err
	}
	if forServer(chain[0]) {
		t.mu.Lock()
		t.peers[keyHash(chain[0])] = chain
		t.mu.Unlock()
	}
	return nil
}

func keyHash(c *x509.Certificate) string {
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(sum[:])
}

// recheck verifies all open connections if the CAs or the revoked certificates have changed since
// the last call. It closes those whose peer is no longer trusted and reports whether there was a
// change.
func (t *trust) recheck() bool {
	cas, list := t.cas.Get(), t.list()
	t.mu.Lock()
	same := cas == t.checkedCAs && list == t.checkedList
	t.checkedCAs, t.checkedList = cas, list
	t.mu.Unlock()
	if same {
		t.open.prune()
		return false
	}
	closed := t.open.closeIf(func(chain []*x509.Certificate) bool { return t.verify(chain) != nil })
	t.log.Info().
		Int("closed", closed).
		Msg("CAs or revoked certificates changed; untrusted connections closed")
	t.recheckPeers()
	t.notify(nil)
	return true
}

// recheckPeers removes nodes that are no longer trusted.
func (t *trust) recheckPeers() {
	t.mu.Lock()
	peers := maps.Clone(t.peers)
	t.mu.Unlock()
	allowed := make(map[string]struct{}, len(peers))
	for key, chain := range peers {
		if t.verify(chain) == nil { // without the lock, since it may call OnChange functions
			allowed[key] = struct{}{}
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for key := range peers {
		if _, ok := allowed[key]; !ok {
			delete(t.peers, key)
		}
	}
	t.peersAllowed = allowed
}

func (t *trust) notify(err error) {
	t.mu.Lock()
	changed := slices.Clone(t.changed)
	t.mu.Unlock()
	for _, f := range changed {
		f(err)
	}
}

// Watch checks the files every second until ctx ends, and closes connections whose peer is no
// longer trusted. After such a change it calls changed, if not nil, and repeats the call every
// second while it fails.
func (i *Identity) Watch(ctx context.Context, changed func() error) {
	var pending bool
	var last string
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		i.pair.Get()
		if i.trust.recheck() {
			pending, last = changed != nil, ""
		}
		if !pending {
			continue
		}
		if err := changed(); err == nil {
			pending = false
		} else if err.Error() != last {
			last = err.Error()
			i.trust.log.Error().Err(err).Msg("changed CAs not applied everywhere; retrying")
		}
	}
}

// OnChange registers a function that is called after certificate, CAs or revoked certificates have
// changed, or with an error if a changed file was rejected. It must not block.
func (i *Identity) OnChange(f func(error)) {
	i.trust.mu.Lock()
	defer i.trust.mu.Unlock()
	i.trust.changed = append(i.trust.changed, f)
	i.pair.OnChange(f)
}

// TrustedKeys returns public key hashes in the format of nats-server's pinned certificates. It
// includes the nodes that connected before the last change and are still trusted.
func (i *Identity) TrustedKeys() map[string]struct{} {
	i.trust.mu.Lock()
	defer i.trust.mu.Unlock()
	return i.trust.peersAllowed
}
