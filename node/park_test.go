package node_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"troupe/messages"
	"troupe/node"
	"troupe/testkit"
)

// copyOfModel copies the shipped model to a folder of the test.
func copyOfModel(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "model")
	if err := os.CopyFS(dir, os.DirFS(testkit.Model())); err != nil {
		t.Fatal(err)
	}
	return dir
}

// recorded are the events that a test has received.
type recorded struct {
	mu     sync.Mutex
	events []string
}

// recordEvents records the events below a subject.
func recordEvents(t *testing.T, conn *nats.Conn, subject string) *recorded {
	t.Helper()
	r := &recorded{}
	_, err := conn.Subscribe(subject, func(m *nats.Msg) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events = append(r.events, m.Subject+" "+string(m.Data))
	})
	if err := errors.Join(err, conn.Flush()); err != nil { // commands may take another connection
		t.Fatal(err)
	}
	return r
}

func (r *recorded) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// have reports whether an event contains a text.
func (r *recorded) have(text string) bool {
	return slices.ContainsFunc(r.all(), func(e string) bool { return strings.Contains(e, text) })
}

// greedyText returns a greedy completion, and whether it was served.
func greedyText(t *testing.T, n *node.Node) (string, bool) {
	t.Helper()
	status, body := post(t, n, "/v1/completions", map[string]any{
		"model": "kjv", "prompt": "In the beginning", "max_tokens": 24, "temperature": 0,
	})
	text := regexp.MustCompile(`"text":"((?:[^"\\]|\\.)*)"`).FindStringSubmatch(string(body))
	if status != 200 || text == nil {
		return string(body), false
	}
	return text[1], true
}

// hostCache returns the status of the node's host cache, and the weights on its GPUs.
func hostCache(t *testing.T, conn *nats.Conn) (cache *messages.HostCacheStatus, weights []*messages.GpuWeights) {
	t.Helper()
	nodes := answer[messages.ListNodesResponse](t, conn, "troupe.v1.nodes.list", `{}`).GetNodes()
	for _, g := range nodes[0].GetGpus() {
		weights = append(weights, g.GetWeights()...)
	}
	return nodes[0].GetHostCache(), weights
}

func modelOf(t *testing.T, conn *nats.Conn) *messages.DeploymentStatus {
	t.Helper()
	return answer[messages.GetModelResponse](t, conn, "troupe.v1.models.get", `{"name": "kjv"}`).GetModel()
}

// revisionOf returns the digest of the deployed revision, which is stored after the first load.
func revisionOf(t *testing.T, conn *nats.Conn) (revision string) {
	t.Helper()
	waitFor(t, "the digests", func() bool {
		revision = modelOf(t, conn).GetSpec().GetRevisionDigest()
		return revision != ""
	})
	return revision
}

// park parks the model and waits until it is.
func park(t *testing.T, conn *nats.Conn) {
	t.Helper()
	answer[messages.ParkModelResponse](t, conn, "troupe.v1.models.park", `{"name": "kjv"}`)
	waitFor(t, "the model to be parked", func() bool {
		_, weights := hostCache(t, conn)
		return modelOf(t, conn).GetState() == messages.DeploymentState_DEPLOYMENT_STATE_PARKED && len(weights) == 0
	})
}

// activate activates the model and waits until a replica serves.
func activate(t *testing.T, conn *nats.Conn) {
	t.Helper()
	answer[messages.ActivateModelResponse](t, conn, "troupe.v1.models.activate", `{"name": "kjv"}`)
	waitFor(t, "a replica to serve", func() bool {
		all := modelOf(t, conn).GetReplicas()
		return len(all) == 1 && all[0].GetState() == messages.ReplicaState_REPLICA_STATE_SERVING
	})
}

// TestParkedModelNeedsNoFiles checks that a parked model leaves the GPU, that requests for it are
// refused with the remedy, and that it is activated with its folder deleted, with the same output.
func TestParkedModelNeedsNoFiles(t *testing.T) {
	dir := copyOfModel(t)
	n := start(t, func(c *node.Config) {
		c.Deployments[0].Path, c.WeightsHostBytes = dir, 64<<20
	})
	conn := connect(t, n)
	events := recordEvents(t, conn, "troupe.v1.events.weights.>")
	want, ok := greedyText(t, n)
	if !ok || len(want) < 40 {
		t.Fatalf("before: %s", want)
	}
	park(t, conn)
	waitFor(t, "its pinned image", func() bool {
		cache, _ := hostCache(t, conn)
		return len(cache.GetImages()) == 1 && cache.GetPinnedBytes() > 0 &&
			cache.GetUsedBytes() == cache.GetPinnedBytes() && cache.GetImages()[0].GetModel() == "kjv"
	})
	tree := answer[messages.TreeResponse](t, conn, "troupe.v1.tree", `{"format": "text"}`).GetText()
	if !regexp.MustCompile(`(?m)image-[0-9a-f]{12} +weights kjv +parked, [\d.]+ MiB$`).MatchString(tree) {
		t.Errorf("no image in the tree:\n%s", tree)
	}
	if body, ok := greedyText(t, n); ok || !strings.Contains(body, "at level parked; models.activate") {
		t.Errorf("request for a parked model: %s", body)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	activate(t, conn)
	if got, ok := greedyText(t, n); !ok || got != want {
		t.Errorf("after: %q, want %q", got, want)
	}
	waitFor(t, "the image to be unpinned", func() bool {
		cache, _ := hostCache(t, conn)
		return len(cache.GetImages()) == 1 && cache.GetPinnedBytes() == 0
	})
	waitFor(t, "the events", func() bool { return events.have("weights.parked") && events.have("from host cache") })
}

// TestParkWithoutRoom checks that a model that does not fit the host cache goes cold, that this is
// said, and that it is loaded from its folder again.
func TestParkWithoutRoom(t *testing.T) {
	n := start(t, func(c *node.Config) { c.WeightsHostBytes = 1 << 20 })
	conn := connect(t, n)
	events := recordEvents(t, conn, "troupe.v1.events.weights.>")
	want, _ := greedyText(t, n)
	park(t, conn)
	if cache, _ := hostCache(t, conn); len(cache.GetImages()) != 0 || cache.GetUsedBytes() != 0 {
		t.Errorf("host cache: %v", cache)
	}
	waitFor(t, "the event", func() bool { return events.have("no room for an image") })
	activate(t, conn)
	if got, ok := greedyText(t, n); !ok || got != want {
		t.Errorf("after: %q, want %q", got, want)
	}
	waitFor(t, "the event of the load", func() bool { return events.have("from disk") })
}

// TestReplacedFolderIsNotMixed checks that files that replace those of a parked model are not mixed with
// its image: the deployed revision is served from the image, and the new one after models.deploy.
func TestReplacedFolderIsNotMixed(t *testing.T) {
	dir := copyOfModel(t)
	n := start(t, func(c *node.Config) { c.Deployments[0].Path, c.WeightsHostBytes = dir, 64<<20 })
	conn := connect(t, n)
	want, _ := greedyText(t, n)
	revision := revisionOf(t, conn)
	park(t, conn)
	path := filepath.Join(dir, "model.safetensors")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := len(b) - 1<<20; i < len(b); i += 64 { // other weights, in a new file
		b[i] ^= 1
	}
	if err := os.WriteFile(path+".new", b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	activate(t, conn)
	if got, ok := greedyText(t, n); !ok || got != want || modelOf(t, conn).GetSpec().GetRevisionDigest() != revision {
		t.Errorf("the image of the deployed revision: %q, want %q", got, want)
	}
	answer[messages.DeployModelResponse](t, conn, "troupe.v1.models.deploy",
		`{"deployment": {"name": "kjv", "path": "`+dir+`"}}`)
	waitFor(t, "the new revision", func() bool {
		d := modelOf(t, conn)
		next := d.GetSpec().GetRevisionDigest()
		return next != "" && next != revision && d.GetState() == messages.DeploymentState_DEPLOYMENT_STATE_READY &&
			d.GetReplicas()[0].GetRevisionDigest() == next
	})
}
