package node_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"troupe/cluster/store"
	"troupe/core/kv"
	"troupe/node"
)

// storeBucket opens the store of a node's cluster.
func storeBucket(t *testing.T, n *node.Node) jetstream.KeyValue {
	t.Helper()
	js, err := jetstream.New(connect(t, n))
	if err != nil {
		t.Fatal(err)
	}
	b, err := js.KeyValue(t.Context(), store.Bucket)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const secretKey = "secrets.prefixes"

// TestNodesShareSecret checks that all nodes of a cluster have the same secret, store it again if
// it is deleted, and adopt another stored one.
func TestNodesShareSecret(t *testing.T) {
	data := [2]string{t.TempDir(), t.TempDir()}
	nodes := startCluster(t, 2, func(i int, c *node.Config) { c.DataDir = data[i] })
	secret := nodes[0].Secret()
	same := bytes.Equal(secret, nodes[1].Secret())
	if len(secret) != kv.SecretBytes || !same || bytes.Equal(secret, make([]byte, kv.SecretBytes)) {
		t.Fatalf("the nodes have secrets of %d and %d bytes; the same: %t", len(secret), len(nodes[1].Secret()), same)
	}
	for _, dir := range data {
		info, err := os.Stat(filepath.Join(dir, "cluster-secret"))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the secret in %s: %v, %v", dir, info, err)
		}
	}
	b := storeBucket(t, nodes[1])
	if err := b.Delete(t.Context(), secretKey); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the secret to be stored again", func() bool {
		e, err := b.Get(t.Context(), secretKey)
		return err == nil && string(e.Value()) == hex.EncodeToString(secret)
	})
	other := bytes.Repeat([]byte{7}, kv.SecretBytes)
	if _, err := b.PutString(t.Context(), secretKey, hex.EncodeToString(other)); err != nil {
		t.Fatal(err)
	}
	for i, n := range nodes {
		waitFor(t, "the nodes to adopt another secret", func() bool { return bytes.Equal(n.Secret(), other) })
		waitFor(t, "the other secret to be in the data folder", func() bool {
			content, err := os.ReadFile(filepath.Join(data[i], "cluster-secret"))
			return err == nil && string(content) == hex.EncodeToString(other)+"\n"
		})
	}
}

// TestSecretSurvivesStoreLoss checks which secret a node has after a restart: the stored one; the
// one of its data folder if the store was lost; or a new one if that file cannot be trusted.
func TestSecretSurvivesStoreLoss(t *testing.T) {
	dir := t.TempDir()
	life := func(change func()) (secret []byte) {
		t.Helper()
		if change != nil {
			change()
		}
		t.Run("life", func(t *testing.T) {
			secret = start(t, func(c *node.Config) { c.DataDir, c.Deployments = dir, nil }).Secret()
		})
		return secret
	}
	file := filepath.Join(dir, "cluster-secret")
	loseStore := func() {
		for _, name := range []string{"jetstream", "desired-state.1", "desired-state.2"} {
			if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	first := life(nil)
	if _, err := os.Stat(filepath.Join(dir, "jetstream")); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		what   string
		change func()
		same   bool
	}{
		{"after a restart", nil, true},
		{"without the file", func() { _ = os.Remove(file) }, true},
		{"without the store", loseStore, true},
		{"with another file", func() { writeFile(t, file, strings.Repeat("ab", kv.SecretBytes), 0o600) }, true},
		{"with a file that others can read", func() { changeMode(t, file, 0o644) }, true},
		{"with a file that others can write, and without the store",
			func() { changeMode(t, file, 0o666); loseStore() }, false},
	} {
		if now := life(tc.change); bytes.Equal(now, first) != tc.same || len(now) != kv.SecretBytes {
			t.Errorf("%s: %d bytes, the same: %t, want %t", tc.what, len(now), bytes.Equal(now, first), tc.same)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: the file has %v, %v", tc.what, info, err)
		}
	}
	// A file that contains no secret is ignored and does not prevent a start.
	second := life(nil)
	for what, change := range map[string]func(){
		"text":        func() { writeFile(t, file, "no secret at all", 0o600) },
		"short":       func() { writeFile(t, file, "abcd", 0o600) },
		"a directory": func() { _ = os.Remove(file); _ = os.Mkdir(file, 0o700) },
		"a link":      func() { _ = os.RemoveAll(file); _ = os.Symlink("/dev/zero", file) },
	} {
		if now := life(func() { change() }); !bytes.Equal(now, second) {
			t.Errorf("with %s in place of the file, the stored secret is not used", what)
		}
		_ = os.RemoveAll(file)
	}
}

func writeFile(t *testing.T, file, content string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	changeMode(t, file, mode)
}

func changeMode(t *testing.T, file string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(file, mode); err != nil {
		t.Fatal(err)
	}
}

// TestStartFailsWithoutSecret checks that a node does not start if the store has an invalid secret,
// because it could not separate tenants.
func TestStartFailsWithoutSecret(t *testing.T) {
	n := start(t, func(c *node.Config) { c.Deployments = nil })
	bad := "not-a-secret-in-hexadecimal"
	if _, err := storeBucket(t, n).PutString(t.Context(), secretKey, bad); err != nil {
		t.Fatal(err)
	}
	joined, err := node.Start(t.Context(), node.Config{
		Name: "second", DataDir: t.TempDir(), HTTP: "127.0.0.1:0", Join: []string{n.NATSURL()}, Version: "0.0.0",
		Log: zerolog.Nop(),
	})
	if err == nil {
		_ = joined.Stop(t.Context())
		t.Fatal("it started")
	}
	if strings.Contains(err.Error(), bad) || !strings.Contains(err.Error(), secretKey) {
		t.Errorf("%v", err)
	}
}

// TestSecretIsNotExposed checks that no log, event, page or answer of the control service contains
// the secret or a salt derived from it.
func TestSecretIsNotExposed(t *testing.T) {
	log := &logged{}
	keys, _ := withTenantKeys(t)
	n := start(t, func(c *node.Config) {
		keys(c)
		withManualTiers(t)(c)
		c.Log = zerolog.New(log).Level(zerolog.DebugLevel)
	})
	conn := connect(t, n)
	events, err := conn.SubscribeSync("troupe.v1.events.>")
	if err != nil {
		t.Fatal(err)
	}
	prompt := strings.Repeat(system, 3)
	cachedFor(t, n, "alice-secret-0001", prompt)
	var seen bytes.Buffer
	for _, ask := range [][2]string{
		{"kv.pin", fmt.Sprintf(`{"name":"p","model":"kjv","tenant":"alice","prompt":%q}`, prompt)},
		{"kv.stats", ""}, {"kv.restore", fmt.Sprintf(`{"model":"kjv","tenant":"alice","prompt":%q}`, prompt)},
		{"kv.offload", ""}, {"tree", `{"format":"json"}`}, {"nodes.list", ""}, {"models.list", ""},
		{"replicas.list", ""},
		{"gpus.list", ""}, {"node.test.status", ""}, {"node.test.kv", `{"stats":{}}`},
		{"replicas.restart", `{"name":"kjv-0"}`}, {"kv.unpin", `{"name":"p"}`},
	} {
		m := request(t, conn, "troupe.v1."+ask[0], ask[1])
		if e := m.Header.Get("Nats-Service-Error"); e != "" {
			t.Errorf("%s: %s", ask[0], e)
		}
		seen.Write(m.Data)
	}
	for _, path := range []string{"/metrics", "/tree", "/ready", "/v1/models"} {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+n.HTTPAddr()+path, nil)
		r.Header.Set("Authorization", "Bearer alice-secret-0001")
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(&seen, res.Body)
		res.Body.Close()
	}
	waitFor(t, "an event of the pin", func() bool {
		for {
			m, err := events.NextMsg(1)
			if err != nil {
				return strings.Contains(seen.String(), "kv.unpinned")
			}
			seen.Write(m.Data)
		}
	})
	log.mu.Lock()
	seen.Write(log.Bytes())
	log.mu.Unlock()
	salt, err := kv.Salt(n.Secret(), "alice", "")
	if err != nil || seen.Len() < 10_000 {
		t.Fatalf("%d bytes were seen; %v", seen.Len(), err)
	}
	for what, value := range map[string][]byte{"secret": n.Secret(), "salt of alice": salt} {
		for _, text := range [][]byte{
			value, hex.AppendEncode(nil, value), bytes.ToUpper(hex.AppendEncode(nil, value)),
			base64.StdEncoding.AppendEncode(nil, value)[:40], base64.URLEncoding.AppendEncode(nil, value)[:40],
			bytes.Trim([]byte(fmt.Sprint(value)), "[]"), []byte(strings.ReplaceAll(fmt.Sprint(value), " ", ",")),
		} {
			if bytes.Contains(seen.Bytes(), text) {
				t.Errorf("the %s is exposed: %s", what, text)
			}
		}
	}
}
