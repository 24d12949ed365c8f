package store

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"strings"
	"sync"
	"testing"

	"troupe/core/kv"
)

// TestSecretFirstWins checks that of several nodes that create a secret at the same time one wins,
// and that all nodes get its secret, later ones included.
func TestSecretFirstWins(t *testing.T) {
	s, _ := open(t)
	if _, err := s.Secret(t.Context()); !errors.Is(err, ErrNotFound) {
		t.Fatalf("before the first: %v", err)
	}
	got := make([][]byte, 16)
	var nodes sync.WaitGroup
	for i := range got {
		nodes.Go(func() {
			var err error
			if got[i], err = s.CreateSecret(t.Context(), bytes.Repeat([]byte{byte(i)}, kv.SecretBytes)); err != nil {
				t.Error(err)
			}
		})
	}
	nodes.Wait()
	stored, err := s.Secret(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, secret := range got {
		if !bytes.Equal(secret, stored) {
			t.Errorf("node %d has %x, stored is %x", i, secret, stored)
		}
	}
	later, err := s.CreateSecret(t.Context(), bytes.Repeat([]byte{99}, kv.SecretBytes))
	if err != nil || !bytes.Equal(later, stored) {
		t.Errorf("a later node has %x, %v", later, err)
	}
}

// TestErrorsDoNotShowSecret checks that invalid secrets are refused, without their value in the
// error.
func TestErrorsDoNotShowSecret(t *testing.T) {
	s, _ := open(t)
	if _, err := s.CreateSecret(t.Context(), []byte("short")); err == nil {
		t.Error("a short secret was stored")
	}
	for _, value := range []string{"", "not-hexadecimal-value", hex.EncodeToString(make([]byte, kv.SecretBytes-1))} {
		if _, err := natsKV(t, s).PutString(t.Context(), secretKey, value); err != nil {
			t.Fatal(err)
		}
		create := func(ctx context.Context) ([]byte, error) {
			return s.CreateSecret(ctx, make([]byte, kv.SecretBytes))
		}
		for _, read := range []func(context.Context) ([]byte, error){s.Secret, create} {
			got, err := read(t.Context())
			if got != nil || err == nil || !strings.Contains(err.Error(), "delete the key") {
				t.Errorf("%q stored: %x, %v", value, got, err)
			} else if value != "" && strings.Contains(err.Error(), value) {
				t.Errorf("%q stored: %x, %v", value, got, err)
			}
		}
	}
}

// TestWatchSecret checks that a watch delivers the secret, its deletion and its change, and skips
// other keys and invalid values.
func TestWatchSecret(t *testing.T) {
	s, restart := open(t)
	f := &recorder[string]{last: map[string]string{}}
	startWatch(t, func(ctx context.Context) error {
		return s.WatchSecret(ctx, func(c SecretChange) { f.record("secret", hex.EncodeToString(c.Secret), c.Synced) })
	})
	f.until(t, "the end of an empty listing", func() bool { return f.synced == 1 && len(f.last) == 0 })
	first, second := bytes.Repeat([]byte{1}, kv.SecretBytes), bytes.Repeat([]byte{2}, kv.SecretBytes)
	if _, err := s.CreateSecret(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	f.until(t, "the secret", func() bool { return f.last["secret"] == hex.EncodeToString(first) })
	if err := s.kv.Delete(t.Context(), secretKey, 0); err != nil {
		t.Fatal(err)
	}
	f.until(t, "its deletion", func() bool { return f.last["secret"] == "" })
	for key, value := range map[string]string{secretKey: "no secret", secrets + "other": hex.EncodeToString(first)} {
		if _, err := natsKV(t, s).PutString(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
	restart()
	f.until(t, "the end of the listing after the restart",
		func() bool { return f.synced == 2 && f.last["secret"] == "" })
	if err := natsKV(t, s).Purge(t.Context(), secretKey); err != nil {
		t.Fatal(err)
	}
	if _, err := s.CreateSecret(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	f.until(t, "another secret", func() bool { return f.last["secret"] == hex.EncodeToString(second) })
}
