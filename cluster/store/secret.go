package store

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"troupe/core/kv"
)

// The salts of tenants are derived from the cluster secret. It is kv.SecretBytes random bytes in
// hexadecimal, under a key of its own. Errors never contain it.
const (
	secrets   = "secrets."
	secretKey = secrets + "prefixes"
)

// CreateSecret stores the cluster secret unless one is stored, and returns the stored one. If
// several nodes create one, the first write wins.
func (s *Store) CreateSecret(ctx context.Context, secret []byte) ([]byte, error) {
	if len(secret) != kv.SecretBytes {
		return nil, fmt.Errorf("cluster secret has %d bytes, want %d", len(secret), kv.SecretBytes)
	}
	stored, err := s.Secret(ctx)
	if !errors.Is(err, ErrNotFound) {
		return stored, err
	}
	text := hex.AppendEncode(nil, secret)
	revision, err := s.kv.Create(ctx, secretKey, text)
	if errors.Is(err, jetstream.ErrKeyExists) {
		return s.Secret(ctx)
	}
	if err = s.syncPut(ctx, secretKey, text, revision, err); err != nil {
		return nil, fmt.Errorf("store the cluster secret: %w", err)
	}
	return secret, nil
}

// Secret returns the cluster secret, or ErrNotFound.
func (s *Store) Secret(ctx context.Context) ([]byte, error) {
	e, err := s.kv.Get(ctx, secretKey)
	if isMissing(err) {
		return nil, fmt.Errorf("cluster secret: %w", ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("cluster secret: %w", err)
	}
	return decodeSecret(e)
}

// SecretChange is a change that WatchSecret delivers.
type SecretChange struct {
	Secret []byte // nil if it was deleted
	// Synced: see NodeChange.
	Synced bool
}

// WatchSecret calls apply with the cluster secret if one is stored, then with Synced, then with
// each change. It returns when ctx ends or the store is lost. It logs and skips invalid values,
// without showing them.
func (s *Store) WatchSecret(ctx context.Context, apply func(SecretChange)) error {
	return s.watch(ctx, secrets, func(e jetstream.KeyValueEntry) {
		switch {
		case e == nil:
			apply(SecretChange{Synced: true})
		case e.Key() != secretKey:
		case e.Operation() != jetstream.KeyValuePut:
			apply(SecretChange{})
		default:
			secret, err := decodeSecret(e)
			if err != nil {
				s.log.Error().Err(err).Msg("stored cluster secret skipped")
				return
			}
			apply(SecretChange{Secret: secret})
		}
	})
}

// decodeSecret decodes a value that an operator may have edited. Its error does not contain the
// value.
func decodeSecret(e jetstream.KeyValueEntry) ([]byte, error) {
	secret, err := hex.DecodeString(string(e.Value()))
	if err != nil || len(secret) != kv.SecretBytes {
		return nil, fmt.Errorf("key %s, revision %d: not %d hexadecimal bytes; delete the key to create a new secret",
			e.Key(), e.Revision(), kv.SecretBytes)
	}
	return secret, nil
}
