package store

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"troupe/core/kv"
)

// The cluster secret is what the salts of tenants are made with: kv.SecretBytes random bytes in hexadecimal,
// under a key of its own. Errors never show it.
const (
	secrets   = "secrets."
	secretKey = secrets + "prefixes"
)

// CreateSecret stores the cluster secret unless one is stored, and returns the stored one: of several nodes
// that make one, the first wins.
func (s *Store) CreateSecret(ctx context.Context, secret []byte) ([]byte, error) {
	if len(secret) != kv.SecretBytes {
		return nil, fmt.Errorf("the cluster secret has %d bytes, not %d", len(secret), kv.SecretBytes)
	}
	stored, err := s.Secret(ctx)
	if !errors.Is(err, ErrNotFound) {
		return stored, err
	}
	if _, err = s.kv.Create(ctx, secretKey, hex.AppendEncode(nil, secret)); errors.Is(err, jetstream.ErrKeyExists) {
		return s.Secret(ctx)
	}
	if err = s.syncCopy(ctx, secretKey, err); err != nil {
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

// SecretChange is what a watch of the cluster secret tells.
type SecretChange struct {
	Secret []byte // nil: it was deleted
	// Synced is as of NodeChange.
	Synced bool
}

// WatchSecret gives the cluster secret to apply where one is stored, then Synced, then each change, until ctx
// ends or the store is lost. A value that is no secret is logged, without it, and passed over.
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
				s.log.Error().Err(err).Msg("stored cluster secret passed over")
				return
			}
			apply(SecretChange{Secret: secret})
		}
	})
}

// decodeSecret reads a value that somebody may have edited. Its error does not show it.
func decodeSecret(e jetstream.KeyValueEntry) ([]byte, error) {
	secret, err := hex.DecodeString(string(e.Value()))
	if err != nil || len(secret) != kv.SecretBytes {
		return nil, fmt.Errorf("key %s, revision %d: not %d hexadecimal bytes; delete the key, and a node makes a new secret",
			e.Key(), e.Revision(), kv.SecretBytes)
	}
	return secret, nil
}
