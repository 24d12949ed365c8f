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

// checkEvery is how often Watch looks at the files.
const checkEvery = time.Second

// trust decides which certificates are accepted, and remembers where they are in use.
type trust struct {
	log     zerolog.Logger
	cas     *reload.Value[*x509.CertPool]
	revoked *reload.Value[*Revoked] // nil: none
	open    tracked

	mu           sync.Mutex
	checkedCAs   *x509.CertPool // those against which open connections were verified last
	checkedList  *Revoked
	changed      []func(error)
	peers        map[string][]*x509.Certificate // of nodes, by the hash of the public key
	peersAllowed map[string]struct{}
}

func newTrust(f Files, log zerolog.Logger) (*trust, error) {
	t := &trust{log: log, peers: map[string][]*x509.Certificate{}}
	read := func() (*x509.CertPool, error) { return readCAs(f.CA) }
	_, err := read() // whose error says which file it is
	if err != nil {
		return nil, err
	}
	if t.cas, err = reload.New(read, t.failed("changed CA not taken"), f.CA); err != nil {
		return nil, err
	}
	if f.Revoked != "" {
		read := func() (*Revoked, error) { return ReadRevoked(f.Revoked) }
		if _, err := read(); err != nil {
			return nil, err
		}
		failed := t.failed("changed list of revoked certificates not taken")
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

// verify checks a chain as of now: a path to a CA without a revoked certificate must exist.
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
	return fmt.Errorf("the certificate of %s is of a CA that is revoked", chain[0].Subject.CommonName)
}

// admit verifies the peer of a connection and tracks the connection, which may be nil. It is
// tracked first, so that a change in between is not missed.
func (t *trust) admit(conn net.Conn, chain []*x509.Certificate, node bool) error {
	if len(chain) > 0 && node && !forServer(chain[0]) {
		return fmt.Errorf(
			"the certificate of %s is a client's, and only nodes are served here",
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

// recheck verifies all open connections if CAs or revoked certificates have changed since the last
// call. It closes those whose peer is no longer trusted, and reports whether something has changed.
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
		Msg("CAs or revoked certificates changed; connections that are no longer trusted were closed")
	t.recheckPeers()
	t.notify(nil)
	return true
}

// recheckPeers forgets nodes that are no longer trusted.
func (t *trust) recheckPeers() {
	t.mu.Lock()
	peers := maps.Clone(t.peers)
	t.mu.Unlock()
	allowed := make(map[string]struct{}, len(peers))
	for key, chain := range peers {
		if t.verify(chain) == nil { // without the lock: it may report a change
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

// Watch reads the files again each second until ctx ends, and closes connections whose peer is no
// longer trusted. After such a change it calls changed, if it is not nil, and again each second
// while that fails.
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
			i.trust.log.Error().Err(err).Msg("changed CAs not in use everywhere; trying again")
		}
	}
}

// OnChange registers a function that is called after a certificate, CAs or revoked certificates
// have changed, or with an error when a changed file was not taken. It must not block.
func (i *Identity) OnChange(f func(error)) {
	i.trust.mu.Lock()
	defer i.trust.mu.Unlock()
	i.trust.changed = append(i.trust.changed, f)
	i.pair.OnChange(f)
}

// TrustedKeys returns the hashes of the public keys of the nodes that were connected before the
// last change and are still trusted, as nats-server takes them for pinned certificates.
func (i *Identity) TrustedKeys() map[string]struct{} {
	i.trust.mu.Lock()
	defer i.trust.mu.Unlock()
	return i.trust.peersAllowed
}
