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

// The cluster secret separates the cached prefixes of tenants. It is in the store and in the data
// folder, so that KV blocks on the node's disk stay usable if the store is lost.

const (
	secretFile           = "cluster-secret" // file name in the data folder
	secretTimeout        = 30 * time.Second // for the store to return it at the start
	secretAttemptTimeout = 2 * time.Second  // for one attempt
)

// secret is the cluster secret as this node knows it. It is safe for concurrent use.
type secret struct {
	mu      sync.Mutex
	value   []byte
	version uint64 // incremented with each change
}

// get returns the secret, or nil if it is not known yet, and its version.
func (s *secret) get() ([]byte, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.value, s.version
}

// set replaces the secret, and reports whether it has changed.
func (s *secret) set(value []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if string(s.value) == string(value) {
		return false
	}
	s.value, s.version = value, s.version+1
	return true
}

// openSecret reads the cluster secret from the store. If none is stored, it stores the one of the
// data folder, or a new one. Without the secret the node does not start, because it could not
// separate tenants.
func (n *Node) openSecret(ctx context.Context) error {
	held, err := readSecret(n.cfg.DataDir)
	if err != nil {
		n.cfg.Log.Warn().Err(err).Msg("ignoring the cluster secret in the data folder")
	}
	if held == nil {
		held = make([]byte, kv.SecretBytes)
		_, _ = rand.Read(held) // never fails
	}
	ctx, cancel := context.WithTimeout(ctx, secretTimeout)
	defer cancel()
	for {
		once, end := context.WithTimeout(ctx, secretAttemptTimeout)
		found, err := n.store.CreateSecret(once, held)
		end()
		if err == nil {
			n.adoptSecret(found)
			return nil
		}
		if !bucket.IsTransient(err) && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		select { // no leader is elected yet, or a server has not seen another node's secret yet
		case <-ctx.Done():
			return err
		case <-time.After(joinRetry):
		}
	}
}

// restoreSecret stores this node's secret, unless one is stored; then it adopts that one.
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

// adoptSecret replaces the secret in memory and in the data folder.
func (n *Node) adoptSecret(value []byte) {
	before, _ := n.secret.get()
	if n.secret.set(value) && before != nil {
		n.cfg.Log.Warn().Msg("cluster secret changed; prefixes cached for tenants are computed again")
	}
	if err := writeSecret(n.cfg.DataDir, value); err != nil {
		n.cfg.Log.Warn().Err(err).
			Msg("cannot write the cluster secret to the data folder; " +
				"if the store is lost, so are tenants' KV blocks on disk")
	}
}

// watchSecret follows the cluster secret, and stores it again if it is deleted.
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
					n.cfg.Log.Warn().Err(err).Msg("cannot store the deleted cluster secret again")
				}
			}
		})
		select {
		case <-ctx.Done():
		case <-time.After(rewatchDelay):
			n.cfg.Log.Warn().Err(err).Msg("store lost; watching the cluster secret again")
		}
	}
}

// salt returns the salt for the hashes of a tenant's KV blocks.
func (n *Node) salt(tenant, cacheSalt string) ([]byte, error) {
	value, _ := n.secret.get()
	return kv.Salt(value, tenant, cacheSalt)
}

// readSecret returns the secret in a data folder, or nil if there is none.
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

// writeSecret writes the secret to a data folder, readable by the owner only.
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
	f, err := os.CreateTemp(dir, secretFile+".*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.WriteString(hex.EncodeToString(value) + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // a leftover does no harm
	}
	return err
}
