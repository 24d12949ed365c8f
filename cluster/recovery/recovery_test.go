package recovery_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"troupe/cluster/recovery"
	"troupe/messages"
)

func put(t *testing.T, n *node, name string) {
	t.Helper()
	spec := &messages.DeploymentSpec{Name: name, Replicas: new(uint32(1))}
	if _, err := n.store.Put(t.Context(), spec, 0); err != nil {
		t.Fatal(err)
	}
}

func names(t *testing.T, n *node) string {
	t.Helper()
	all, err := n.store.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, spec := range all {
		names = append(names, spec.GetName())
	}
	return fmt.Sprint(names)
}

func mustBoot(t *testing.T, dir string) *node {
	t.Helper()
	n, err := boot(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestCopyRestoresRemovedStore checks that a node restores removed JetStream files from the copy,
// and that terms continue above earlier ones.
func TestCopyRestoresRemovedStore(t *testing.T) {
	dir := t.TempDir()
	n := mustBoot(t, dir)
	put(t, n, "a")
	if err := n.members.Join(t.Context(), "127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	term := acquire(t, n, "planner")
	n.stop()
	if err := os.RemoveAll(filepath.Join(dir, "jetstream")); err != nil {
		t.Fatal(err)
	}
	n = mustBoot(t, dir)
	if got := names(t, n); got != "[a]" {
		t.Errorf("deployments %s", got)
	}
	if err := n.members.Join(t.Context(), "127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	if next := acquire(t, n, "planner"); next <= term {
		t.Errorf("term %d after %d", next, term)
	}
}

// TestDamagedFilesAreSetAside checks that the files of a damaged store are kept unchanged, for the five
// most recent failures.
func TestDamagedFilesAreSetAside(t *testing.T) {
	dir := t.TempDir()
	n := mustBoot(t, dir)
	put(t, n, "a")
	n.stop()
	meta := filepath.Join("jetstream", "$G", "streams", "KV_troupe", "meta.inf")
	for i := range 7 {
		damaged := []byte(fmt.Sprint("damaged ", i))
		if err := os.WriteFile(filepath.Join(dir, meta), damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		n := mustBoot(t, dir)
		if got := names(t, n); got != "[a]" {
			t.Errorf("deployments %s", got)
		}
		n.stop()
		aside, err := recovery.SetAsideFolders(dir)
		if err != nil || len(aside) != min(i+1, 5) {
			t.Fatalf("%d folders were set aside after %d failures, %v", len(aside), i+1, err)
		}
		kept, err := os.ReadFile(filepath.Join(aside[len(aside)-1], meta))
		if err != nil || !bytes.Equal(kept, damaged) {
			t.Errorf("%q is set aside, %v", kept, err)
		}
	}
}

// TestStoreWithoutCopy checks that a node accepts the store of an older version, which has no copy.
// If that store is damaged, the node does not start.
func TestStoreWithoutCopy(t *testing.T) {
	dir := t.TempDir()
	n := mustBoot(t, dir)
	put(t, n, "a")
	n.stop()
	forget := func() {
		for _, name := range []string{"desired-state.1", "desired-state.2"} {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	forget()
	n = mustBoot(t, dir)
	if got := names(t, n); got != "[a]" {
		t.Errorf("deployments %s", got)
	}
	n.stop()
	forget()
	folder := filepath.Join(dir, "jetstream", "$G", "streams", "KV_troupe")
	if err := os.Truncate(filepath.Join(folder, "meta.inf"), 9); err != nil {
		t.Fatal(err)
	}
	if _, err := boot(t, dir); err == nil || !strings.Contains(err.Error(), folder) {
		t.Errorf("%v; want an error that names %s", err, folder)
	}
	if _, err := os.Stat(filepath.Join(folder, "msgs")); err != nil {
		t.Errorf("the files of the damaged store are gone: %v", err)
	}
}

// TestStartFailsWithoutReadableCopy checks that a node does not start if both files of the copy are
// damaged.
func TestStartFailsWithoutReadableCopy(t *testing.T) {
	dir := t.TempDir()
	n := mustBoot(t, dir)
	put(t, n, "a")
	n.stop()
	first, second := filepath.Join(dir, "desired-state.1"), filepath.Join(dir, "desired-state.2")
	if err := errors.Join(os.Truncate(first, 50), os.Truncate(second, 60)); err != nil {
		t.Fatal(err)
	}
	_, err := boot(t, dir)
	if err == nil || !strings.Contains(err.Error(), first) || !strings.Contains(err.Error(), second) {
		t.Errorf("%v; want an error that names both files", err)
	}
}
