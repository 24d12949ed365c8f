package node_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"troupe/messages"
	"troupe/node"
	"troupe/testkit"
)

// readiness returns the status and the body of a node's /ready.
func readiness(t *testing.T, n *node.Node) (int, string) {
	t.Helper()
	res, err := http.Get("http://" + n.HTTPAddr() + "/ready")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// occupy deletes the stream of a bucket and takes its subjects, so that the nodes cannot create it
// again until release is called. It returns once all nodes report the loss.
func occupy(t *testing.T, js jetstream.JetStream, bucket string, nodes ...*node.Node) (release func()) {
	t.Helper()
	occupied := jetstream.StreamConfig{Name: "occupied", Subjects: []string{"$KV." + bucket + ".>"}}
	remove := func() {
		err := js.DeleteStream(t.Context(), "KV_"+bucket)
		if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			t.Fatal(err)
		}
	}
	waitFor(t, "the subjects of "+bucket+" to be taken", func() bool {
		remove()
		_, err := js.CreateStream(t.Context(), occupied)
		return err == nil
	})
	// The server may accept both streams if a node creates its own at the same time, so the bucket
	// is removed until it stays away.
	waitFor(t, "/ready to report the loss of "+bucket, func() bool {
		remove()
		return !slices.ContainsFunc(nodes, func(n *node.Node) bool {
			status, body := readiness(t, n)
			return status != http.StatusServiceUnavailable || !strings.Contains(body, `"causes":["store"`)
		})
	})
	return func() {
		if err := js.DeleteStream(t.Context(), occupied.Name); err != nil {
			t.Fatal(err)
		}
	}
}

// TestStoreDeleted checks that nodes whose store is deleted report it, are not ready, and restore
// all of its content.
func TestStoreDeleted(t *testing.T) {
	nodes := startCluster(t, 2, nil)
	deploy(t, nodes[0], kjvSpec(1), nodes[1])
	adapters := filepath.Join(testkit.Model(), "adapters")
	adapter, err := nodes[0].Backend().RegisterAdapter(t.Context(), &messages.RegisterAdapterRequest{
		Adapter: &messages.AdapterSpec{Name: "psalms", Model: "kjv", Path: filepath.Join(adapters, "psalms")},
		AnyBase: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := nodes[1].Backend().Pin(t.Context(),
		&messages.PinnedPrefix{Name: "p", Model: "kjv", Tokens: []uint32{1, 2, 3}, Blocks: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := nodes[0].Backend().DrainNode(t.Context(), "b", true); err != nil {
		t.Fatal(err)
	}
	gone := kjvSpec(1)
	gone.Name = "gone"
	if _, err := nodes[0].PutDeployment(t.Context(), gone, 0); err != nil {
		t.Fatal(err)
	}
	if err := nodes[0].Backend().DeleteDeployment(t.Context(), "gone", false); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "both nodes to know everything", func() bool {
		s, err := nodes[1].Backend().NodeStatus(t.Context())
		return err == nil && s.GetDraining() && len(nodes[0].Backend().Pins()) == 1 &&
			len(nodes[1].Backend().Adapters("kjv")) == 1 &&
			!isDeployed(t, nodes[1], "gone")
	})
	before, err := nodes[0].Backend().Deployment(t.Context(), "kjv")
	if err != nil {
		t.Fatal(err)
	}
	conn := connect(t, nodes[0])
	events, err := conn.SubscribeSync("troupe.v1.events.store.>")
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	release := occupy(t, js, "troupe", nodes...)
	got := complete(t, nodes[1], map[string]any{"model": "kjv", "prompt": "In the", "max_tokens": 2})
	if len(got.Choices) != 1 {
		t.Errorf("deployments are not served in the meantime: %v", got)
	}
	release()
	for i, want := range []string{`"causes":[]`, `"causes":["draining"]`} {
		waitFor(t, "the node to be ready again",
			func() bool { _, body := readiness(t, nodes[i]); return strings.Contains(body, want) })
	}
	kv, err := js.KeyValue(t.Context(), "troupe")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"deployments.kjv", "adapters.kjv/psalms", "pins.p", "nodes.b"} {
		waitFor(t, key+" to be stored", func() bool { _, err := kv.Get(t.Context(), key); return err == nil })
	}
	if _, err := kv.Get(t.Context(), "deployments.gone"); !errors.Is(err, jetstream.ErrKeyNotFound) {
		t.Errorf("a deleted object is stored again: %v", err)
	}
	if e, err := kv.Get(t.Context(), "deployments.kjv"); err != nil || e.Revision() <= before.GetRevision() {
		t.Errorf("revision %d after %d, %v", e.Revision(), before.GetRevision(), err)
	}
	for _, n := range nodes {
		waitFor(t, "the adapter and the drained node", func() bool {
			all := n.Backend().Adapters("kjv")
			s, err := n.Backend().NodeStatus(t.Context())
			return len(all) == 1 && all[0].GetRevision() == adapter.GetRevision() &&
				err == nil && s.GetDraining() == (s.GetMember().GetName() == "b")
		})
	}
	if _, _, err := nodes[1].Scale(t.Context(), "kjv", 2); err != nil {
		t.Fatal(err)
	}
	awaitEvents(t, events, "store.lost", "store.restored")
}

func isDeployed(t *testing.T, n *node.Node, name string) bool {
	t.Helper()
	all, err := n.Backend().Deployments(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		if d.GetSpec().GetName() == name {
			return true
		}
	}
	return false
}

// awaitEvents waits for events of all given kinds.
func awaitEvents(t *testing.T, events *nats.Subscription, kinds ...string) {
	t.Helper()
	missing := map[string]bool{}
	for _, kind := range kinds {
		missing[kind] = true
	}
	for len(missing) > 0 {
		m, err := events.NextMsgWithContext(t.Context())
		if err != nil {
			t.Fatalf("%v, and no event %v", err, missing)
		}
		var event struct{ Kind string }
		if err := json.Unmarshal(m.Data, &event); err != nil {
			t.Fatal(err)
		}
		delete(missing, event.Kind)
	}
}

// TestMembersDeleted checks that leaders continue with higher terms when the bucket of members is
// deleted, so that none is fenced.
func TestMembersDeleted(t *testing.T) {
	nodes := startCluster(t, 2, nil)
	deploy(t, nodes[0], kjvSpec(1))
	before, err := nodes[0].Backend().Deployment(t.Context(), "kjv")
	if err != nil {
		t.Fatal(err)
	}
	conn := connect(t, nodes[0])
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	release := occupy(t, js, "troupe-members", nodes[0])
	release()
	for _, n := range nodes {
		waitFor(t, "the node to be ready again",
			func() bool { status, _ := readiness(t, n); return status == http.StatusOK })
	}
	waitFor(t, "two members", func() bool {
		return len(nodes[0].Backend().Members()) == 2 && len(nodes[1].Backend().Members()) == 2
	})
	if _, _, err := nodes[1].Scale(t.Context(), "kjv", 2); err != nil {
		t.Fatal(err)
	}
	detail := ""
	waitFor(t, "a second replica, by a leader of a higher term", func() bool {
		d, err := nodes[0].Backend().Deployment(t.Context(), "kjv")
		detail = fmt.Sprint(d, err)
		return err == nil && len(d.GetReplicas()) == 2 && d.GetTerm() > before.GetTerm() &&
			d.GetState() == messages.DeploymentState_DEPLOYMENT_STATE_READY
	})
	t.Log(detail)
}
