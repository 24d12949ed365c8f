//go:build linux

package node_test

import (
	"cmp"
	"context"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/encoding/protojson"

	"troupe/cuda/host"
	"troupe/messages"
	"troupe/node"
	"troupe/testkit"
)

// fullFor is the environment variable that sets how long TestFullDisk keeps the disk full, such as
// "60s".
const fullFor = "TROUPE_FULL_DISK_FOR"

// refusalOf returns the refusal in an answer of the control service.
func refusalOf(t *testing.T, m *nats.Msg) *messages.ErrorResponse {
	t.Helper()
	got := &messages.ErrorResponse{}
	if m.Header.Get("Nats-Service-Error") == "" {
		return got
	}
	if err := protojson.Unmarshal(m.Data, got); err != nil {
		t.Fatalf("%v: %s", err, m.Data)
	}
	return got
}

// TestFullDisk fills the disk of a node's store from another process. The node must report it,
// refuse changes, keep serving, and accept changes again once there is space. A node that starts
// while the disk is full must report why it waits.
func TestFullDisk(t *testing.T) {
	if !testkit.OwnMounts(t) {
		return
	}
	dir := testkit.SmallDisk(t, 64<<20)
	n := start(t, func(c *node.Config) { c.Name, c.DataDir = "a", dir })
	conn := connect(t, n)
	events, err := conn.SubscribeSync("troupe.v1.events.disk.>")
	if err != nil {
		t.Fatal(err)
	}
	url := n.NATSURL()
	if code, body := readiness(t, n); code != http.StatusOK {
		t.Fatalf("before: %d %s", code, body)
	}

	empty := testkit.FillDisk(t, dir)
	waitFor(t, "the store to stop", func() bool {
		nodes := answer[messages.ListNodesResponse](t, conn, "troupe.v1.nodes.list", "").GetNodes()
		return len(nodes) == 1 && nodes[0].GetDisk().GetStopped()
	})
	waitFor(t, "/ready to report the disk", func() bool {
		code, body := readiness(t, n)
		return code == http.StatusServiceUnavailable && strings.Contains(body, `"causes":["disk"]`)
	})
	waitFor(t, "nodes.list to report the disk", func() bool {
		list := answer[messages.ListNodesResponse](t, conn, "troupe.v1.nodes.list", "")
		d := list.GetNodes()[0].GetDisk()
		return d.GetFolder() == dir && d.GetLow() && d.GetFreeBytes() < d.GetNeededBytes() &&
			strings.Contains(d.GetDetail(), "32 MiB missing") &&
			list.GetStore().GetReason() == messages.Reason_REASON_NO_SPACE
	})
	refused := refusalOf(t, request(t, conn, "troupe.v1.models.scale", `{"name":"kjv","replicas":2}`))
	if refused.GetReason() != messages.Reason_REASON_NO_SPACE || !strings.Contains(refused.GetError(), dir) {
		t.Errorf("%v", refused)
	}
	waitFor(t, "the event", func() bool { // disk.low may come first
		m, err := events.NextMsg(time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		return m.Subject == "troupe.v1.events.disk.full"
	})
	completion := map[string]any{"model": "kjv", "prompt": "In the", "max_tokens": 2}
	if code, body := post(t, n, "/v1/completions", completion); code != http.StatusOK {
		t.Errorf("a request: %d %s", code, body)
	}

	log := &logged{}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	started := make(chan error, 1)
	go func() {
		_, err := node.Start(ctx, node.Config{
			Name: "b", DataDir: t.TempDir(), HTTP: "127.0.0.1:0", Join: []string{url}, Version: "0.0.0",
			Devices: []host.Config{{MemoryBytes: 64 << 20}}, Log: zerolog.New(log),
		})
		started <- err
	}()
	why := "node a: data folder " + dir + " has 0 B free and needs 32 MiB"
	waitFor(t, "a starting node to log why it waits", func() bool {
		return strings.Contains(log.String(), "waiting for the store") && strings.Contains(log.String(), why)
	})
	cancel()
	if err := <-started; err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("a waiting node: %v, want %q in it", err, why)
	}

	if wait, err := time.ParseDuration(cmp.Or(os.Getenv(fullFor), "0s")); err != nil {
		t.Fatal(err)
	} else {
		<-time.After(wait)
	}
	empty()
	waitFor(t, "the node is ready", func() bool { code, _ := readiness(t, n); return code == http.StatusOK })
	waitFor(t, "a change to be accepted", func() bool {
		m, err := conn.Request("troupe.v1.models.scale", []byte(`{"name":"kjv","replicas":2}`), 10*time.Second)
		return err == nil && m.Header.Get("Nats-Service-Error") == ""
	})
	if n.NATSURL() != url {
		t.Errorf("at %s, was at %s", n.NATSURL(), url)
	}
	waitFor(t, "two replicas", func() bool {
		d, err := n.Backend().Deployment(t.Context(), "kjv")
		return err == nil && len(d.GetReplicas()) == 2
	})
	waitFor(t, "enough space to be reported", func() bool {
		list := answer[messages.ListNodesResponse](t, conn, "troupe.v1.nodes.list", "")
		d := list.GetNodes()[0].GetDisk()
		return !d.GetLow() && !d.GetStopped()
	})
}

// TestStartOnFullDisk checks that a node on a full disk does not start, and that its error states
// how much space is missing.
func TestStartOnFullDisk(t *testing.T) {
	if !testkit.OwnMounts(t) {
		return
	}
	dir := testkit.SmallDisk(t, 4<<20)
	testkit.FillDisk(t, dir)
	_, err := node.Start(t.Context(), node.Config{
		Name: "a", DataDir: dir, HTTP: "127.0.0.1:0", NATSListen: "127.0.0.1:0", Version: "0.0.0",
		Devices: []host.Config{{MemoryBytes: 64 << 20}}, Log: zerolog.Nop(),
	})
	want := "data folder " + dir + " has 0 B free and needs 32 MiB: 32 MiB missing"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q in it", err, want)
	}
}
