package node

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"troupe/cluster/bucket"
	"troupe/cluster/store"
	"troupe/core/kv"
)

// The cluster secret keeps the cached prefixes of tenants apart. It is kept in the store and, so that the KV
// blocks on the node's disk stay useful after the store was lost, in the data folder.

const (
	secretFile   = "cluster-secret" // its name in the data folder
	secretWithin = 30 * time.Second // for the store to answer with it at the start
	secretAsk    = 2 * time.Second  // for one answer
)

// secret is the cluster secret as this node knows it. It is safe for concurrent use.
type secret struct {
	mu      sync.Mutex
	value   []byte
	version uint64 // grows with each change
}

// get returns the secret, nil where it is not known, and a number that grows with each change.
func (s *secret) get() ([]byte, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.value, s.version
}

// set reports whether value is another secret than before.
func (s *secret) set(value []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if string(s.value) == string(value) {
		return false
	}
	s.value, s.version = value, s.version+1
	return true
}

// openSecret reads the cluster secret from the store. Where none is stored, it stores the one in the data
// folder, or a new one. A node without the secret does not start: it could not keep tenants apart.
func (n *Node) openSecret(ctx context.Context) error {
	held, err := readSecret(n.cfg.DataDir)
	if err != nil {
		n.cfg.Log.Warn().Err(err).Msg("cluster secret in the data folder not used")
	}
	if held == nil {
		held = make([]byte, kv.SecretBytes)
		_, _ = rand.Read(held) // never fails
	}
	ctx, cancel := context.WithTimeout(ctx, secretWithin)
	defer cancel()
	for {
		once, end := context.WithTimeout(ctx, secretAsk)
		found, err := n.store.CreateSecret(once, held)
		end()
		if err == nil {
			n.adoptSecret(found)
			return nil
		}
		if !bucket.IsTransient(err) && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		select { // the NATS servers elect a leader, or one that was asked has not heard of another node's secret
		case <-ctx.Done():
			return err
		case <-time.After(joinAgain):
		}
	}
}

// restoreSecret stores the secret that this node holds, unless one is stored; then it takes that one up.
func (n *Node) restoreSecret(ctx context.Context) error {
	held, _ := n.secret.get()
	if held == nil {
		return nil
	}
	found, err := n.store.CreateSecret(ctx, held)
	if err != nil {
		return err
	}
	n.adoptSecret(found)
	return nil
}

// adoptSecret takes up a secret, and keeps it in the data folder.
func (n *Node) adoptSecret(value []byte) {
	before, _ := n.secret.get()
	if n.secret.set(value) && before != nil {
		n.cfg.Log.Warn().Msg("cluster secret changed; prefixes cached for tenants are computed again")
	}
	if err := writeSecret(n.cfg.DataDir, value); err != nil {
		n.cfg.Log.Warn().Err(err).
			Msg("cluster secret not kept in the data folder; if the store is lost, so are the KV blocks of tenants on disk")
	}
}

// watchSecret follows the cluster secret. Where it is deleted, it is stored again.
func (n *Node) watchSecret(ctx context.Context, synced func()) {
	for ctx.Err() == nil {
		stored := false // since the watch began
		err := n.store.WatchSecret(ctx, func(c store.SecretChange) {
			switch {
			case c.Secret != nil:
				stored = true
				n.adoptSecret(c.Secret)
				return
			case c.Synced:
				synced()
			default:
				stored = false
			}
			if !stored {
				if err := n.restoreSecret(ctx); err != nil {
					n.cfg.Log.Warn().Err(err).Msg("deleted cluster secret not stored again")
				}
			}
		})
		select {
		case <-ctx.Done():
		case <-time.After(watchAgain):
			n.cfg.Log.Warn().Err(err).Msg("store lost, watching the cluster secret again")
		}
	}
}

// salt returns the salt of a tenant's KV blocks.
func (n *Node) salt(tenant, cacheSalt string) ([]byte, error) {
	value, _ := n.secret.get()
	return kv.Salt(value, tenant, cacheSalt)
}

// readSecret returns the secret in a data folder, nil where there is none.
func readSecret(dir string) ([]byte, error) {
	path := filepath.Join(dir, secretFile)
	info, err := os.Lstat(path)
	switch {
	case dir == "" || errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || info.Size() > 4*kv.SecretBytes:
		return nil, fmt.Errorf("%s is not a file with a cluster secret; remove it", path)
	case info.Mode().Perm()&0o022 != 0:
		return nil, fmt.Errorf("%s is writable by other users (mode %#o), who may have chosen the secret; remove it",
			path, info.Mode().Perm())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	value, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(value) != kv.SecretBytes {
		return nil, fmt.Errorf("%s is not a file with a cluster secret; remove it", path)
	}
	return value, nil
}

// writeSecret keeps the secret in a data folder, where only the owner can read it.
func writeSecret(dir string, value []byte) error {
	if dir == "" {
		return nil
	}
	path := filepath.Join(dir, secretFile)
	if info, err := os.Lstat(path); err == nil && info.Mode().Perm() == 0o600 {
		if held, err := readSecret(dir); err == nil && string(held) == string(value) {
			return nil
		}
	}
	f, err := os.CreateTemp(dir, secretFile+".*") // with mode 0600
	if err != nil {
		return err
	}
	_, err = f.WriteString(hex.EncodeToString(value) + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // what is left of it does no harm
	}
	return err
}
