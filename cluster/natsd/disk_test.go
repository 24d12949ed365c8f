//go:build linux

package natsd

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"troupe/testkit"
)

// TestFullDisk checks that a server whose disk is filled by another process reports it and refuses
// writes. Once there is space it accepts writes again, in the same process and at the same address,
// and has kept its data.
func TestFullDisk(t *testing.T) {
	if !testkit.OwnMounts(t) {
		return
	}
	dir := testkit.SmallDisk(t, 8<<20)
	changes := make(chan Disk, 100)
	s, err := start(t, func(c *Config) {
		c.StoreDir, c.MinFree, c.OnDiskChange = dir, 1<<20, func(d Disk) { changes <- d }
		c.Log = zerolog.New(zerolog.NewTestWriter(t))
	})
	if err != nil {
		t.Fatal(err)
	}
	url := s.URL()
	conn, err := nats.Connect(url, ClientOptions("test", zerolog.Nop())...)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	own, err := s.Connect(ClientOptions("own", zerolog.Nop())...)
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "b"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Put(t.Context(), "before", []byte("v")); err != nil {
		t.Fatal(err)
	}
	put := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := kv.Put(ctx, "k", make([]byte, 64<<10))
		return err
	}
	if d := s.Disk(); d.State != DiskOK {
		t.Errorf("before: %s", d)
	}

	empty := testkit.FillDisk(t, dir)
	testkit.Until(t, "a write is refused", func() bool { return put() != nil })
	testkit.Until(t, "the store has stopped", func() bool { return s.Disk().State == DiskStopped })
	d := s.Disk()
	if d.Free >= d.Needed || d.Needed != 1<<20 || d.Folder != dir {
		t.Errorf("%+v", d)
	}
	for _, want := range []string{dir, "needs 1 MiB", "missing", "takes no changes"} {
		if !strings.Contains(d.String(), want) {
			t.Errorf("%q, want %q in it", d, want)
		}
	}

	empty()
	testkit.Until(t, "the store accepts writes again", func() bool {
		return s.Disk().State == DiskOK && put() == nil
	})
	if s.URL() != url {
		t.Errorf("URL %s, was %s", s.URL(), url)
	}
	if v, err := kv.Get(t.Context(), "before"); err != nil || string(v.Value()) != "v" {
		t.Errorf("value stored before: %v", err)
	}
	testkit.Until(t, "the in-process connection is back", func() bool {
		return own.FlushTimeout(time.Second) == nil
	})
	var last Disk
	for len(changes) > 0 {
		last = <-changes
	}
	if last.State != DiskOK {
		t.Errorf("last change: %+v", last)
	}
}

// TestNotRestartedWhileUnwritable checks that the server keeps running for its clients while the
// folder has space but cannot be written.
func TestNotRestartedWhileUnwritable(t *testing.T) {
	cfg := Config{StoreDir: t.TempDir(), Log: zerolog.Nop()}
	s, err := start(t, func(c *Config) { c.StoreDir = cfg.StoreDir })
	if err != nil {
		t.Fatal(err)
	}
	before := s.nats.current()
	block := filepath.Join(cfg.StoreDir, ".writable")
	if err := os.Mkdir(block, 0o755); err != nil {
		t.Fatal(err)
	}
	if s.restart(&cfg); s.nats.current() != before || !before.Running() {
		t.Error("the server was stopped")
	}
	if err := os.Remove(block); err != nil {
		t.Fatal(err)
	}
	if s.restart(&cfg); s.nats.current() == before || !s.nats.current().Running() || s.writeError() != "" {
		t.Error("the server was not restarted")
	}
}

// TestFullDiskInCluster fills the disk of one of three servers. The others keep accepting writes,
// and it rejoins once there is space.
func TestFullDiskInCluster(t *testing.T) {
	if !testkit.OwnMounts(t) {
		return
	}
	dir := testkit.SmallDisk(t, 32<<20)
	servers := startThree(t, func(int, int) bool { return false }, func(i int, c *Config) {
		if c.MinFree = 1 << 20; i == 0 {
			c.StoreDir, c.Log = dir, zerolog.New(zerolog.NewTestWriter(t))
		}
	})
	conn, err := servers[1].Connect(ClientOptions("test", zerolog.Nop())...)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	var kv jetstream.KeyValue
	testkit.Until(t, "a bucket on three servers", func() bool {
		kv, err = js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "b", Replicas: 3})
		return err == nil
	})
	put := func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := kv.Put(ctx, "k", make([]byte, 64<<10))
		return err == nil
	}
	testkit.Until(t, "a write", put)
	empty := testkit.FillDisk(t, dir)
	testkit.Until(
		t,
		"the store of that server has stopped",
		func() bool { put(); return servers[0].Disk().State == DiskStopped },
	)
	testkit.Until(t, "the others accept writes", put)
	empty()
	testkit.Until(t, "its store accepts writes again", func() bool { return servers[0].Disk().State == DiskOK })
	servers[2].Stop() // now servers[0] is needed for a majority
	testkit.Until(t, "a write to servers[0] and one other", put)
}

// TestStartOnFullDisk checks that the error of a start without space names the folder and the
// missing space.
func TestStartOnFullDisk(t *testing.T) {
	if !testkit.OwnMounts(t) {
		return
	}
	dir := testkit.SmallDisk(t, 4<<20)
	testkit.FillDisk(t, dir)
	_, err := start(t, func(c *Config) { c.StoreDir, c.MinFree = dir, 1<<20 })
	if err == nil || !strings.Contains(err.Error(), "data folder "+dir+" has 0 B free and needs 1 MiB") ||
		!strings.Contains(err.Error(), "--data") {
		t.Errorf("got %v", err)
	}
}

// TestUnwritableFolderIsRefused checks that a folder with space that cannot be written is refused.
func TestUnwritableFolderIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, ".writable"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := start(t, func(c *Config) { c.StoreDir = dir })
	if err == nil || !strings.Contains(err.Error(), "cannot be written") {
		t.Errorf("got %v", err)
	}
}
