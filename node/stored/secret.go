package stored

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/cluster/bucket"
	"troupe/cluster/store"
	"troupe/core/kv"
)

const (
	secretTimeout        = 30 * time.Second // maximum wait for the store to return the secret at the start
	secretAttemptTimeout = 2 * time.Second  // for one attempt
	secretRetry          = 500 * time.Millisecond
)

// SecretStore is the part of the store that holds the cluster secret.
type SecretStore interface {
	// CreateSecret stores the secret unless one is stored, and returns the stored one.
	CreateSecret(ctx context.Context, secret []byte) ([]byte, error)
	WatchSecret(ctx context.Context, apply func(store.SecretChange)) error
}

// Secret is the cluster secret as this node knows it. It separates the cached prefixes of tenants.
// It is stored both in the store and in the data folder, so that KV blocks on the node's disk stay
// usable if the store is lost. It is safe for concurrent use.
type Secret struct {
	store SecretStore
	dir   string
	log   zerolog.Logger

	mu      sync.Mutex
	value   []byte
	version uint64 // incremented with each change
}

// OpenSecret reads the cluster secret from the store. If none is stored, it stores the secret from
// the data folder dir, or a new one. A node does not start without the secret, because it could not
// separate tenants.
func OpenSecret(ctx context.Context, from SecretStore, dir string, rt supervise.Runtime,
	log zerolog.Logger) (*Secret, error) {
	s := &Secret{store: from, dir: dir, log: log}
	held, err := readSecret(dir)
	if err != nil {
		log.Warn().Err(err).Msg("ignoring the cluster secret in the data folder")
	}
	if held == nil {
		held = make([]byte, kv.SecretBytes)
		rt.ReadRandom(held)
	}
	ctx, cancel := rt.WithTimeout(ctx, secretTimeout)
	defer cancel()
	for {
		once, end := rt.WithTimeout(ctx, secretAttemptTimeout)
		found, err := from.CreateSecret(once, held)
		end()
		if err == nil {
			s.adopt(found)
			return s, nil
		}
		if !bucket.IsTransient(err) && !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
		select { // the store has no leader yet, or a server has not received another node's secret yet
		case <-ctx.Done():
			return nil, err
		case <-rt.After(secretRetry):
		}
	}
}

// Get returns the secret and its version, which changes when the secret does.
func (s *Secret) Get() (value []byte, version uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.value, s.version
}

// Salt returns the salt for the hashes of a tenant's KV blocks.
func (s *Secret) Salt(tenant, cacheSalt string) ([]byte, error) {
	value, _ := s.Get()
	return kv.Salt(value, tenant, cacheSalt)
}

// Watch returns a watch that follows the secret. If the secret is deleted, the watch stores it
// again.
func (s *Secret) Watch() Watch {
	return Watch{Of: "the cluster secret", Run: func(ctx context.Context, synced func()) error {
		stored := false // the secret was stored at some time since the watch began
		return s.store.WatchSecret(ctx, func(c store.SecretChange) {
			switch {
			case c.Secret != nil:
				stored = true
				s.adopt(c.Secret)
				return
			case c.Synced:
				synced()
			default:
				stored = false
			}
			if !stored {
				if err := s.restore(ctx); err != nil {
					s.log.Warn().Err(err).Msg("cannot store the deleted cluster secret again")
				}
			}
		})
	}}
}

// restore stores this node's secret unless another one is stored, in which case it adopts that one.
func (s *Secret) restore(ctx context.Context) error {
	held, _ := s.Get()
	found, err := s.store.CreateSecret(ctx, held)
	if err != nil {
		return err
	}
	s.adopt(found)
	return nil
}

// adopt replaces the secret in memory and in the data folder.
func (s *Secret) adopt(value []byte) {
	before, _ := s.Get()
	if s.set(value) && before != nil {
		s.log.Warn().Msg("cluster secret changed; prefixes cached for tenants are computed again")
	}
	if err := writeSecret(s.dir, value); err != nil {
		s.log.Warn().Err(err).
			Msg("cannot write the cluster secret to the data folder; " +
				"if the store is lost, so are tenants' KV blocks on disk")
	}
}

// set replaces the secret, and reports whether it has changed.
func (s *Secret) set(value []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if string(s.value) == string(value) {
		return false
	}
	s.value, s.version = value, s.version+1
	return true
}
