package node_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"troupe/messages"
	"troupe/node"
)

// TestDeployGoneFolder redeploys a model whose folder is gone. The node has an image of the deployed revision,
// which stays deployed, though an image of other files that the folder had was used later.
func TestDeployGoneFolder(t *testing.T) {
	dir := copyOfModel(t)
	n := start(t, func(c *node.Config) { c.Deployments[0].Path, c.WeightsHostBytes = dir, 64<<20 })
	conn := connect(t, n)
	want, ok := greedyText(t, n)
	if !ok {
		t.Fatal(want)
	}
	revision := revisionOf(t, conn)
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
	answer[messages.DeployModelResponse](t, conn, "troupe.v1.models.deploy",
		`{"deployment": {"name": "second", "path": "`+dir+`"}}`)
	waitFor(t, "another model of the new files", func() bool {
		all := answer[messages.ListModelsResponse](t, conn, "troupe.v1.models.list", `{}`).GetModels()
		return slices.ContainsFunc(all, func(m *messages.DeploymentStatus) bool {
			return m.GetSpec().GetName() == "second" && m.GetState() == messages.DeploymentState_DEPLOYMENT_STATE_READY
		})
	})
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}

	done := answer[messages.DeployModelResponse](t, conn, "troupe.v1.models.deploy",
		`{"deployment": {"name": "kjv", "path": "`+dir+`", "max_waiting": 7}}`)
	if done.GetDeployment().GetRevisionDigest() != revision || done.GetDeployment().GetMaxWaiting() != 7 ||
		!strings.Contains(done.GetDetail(), "no node has the folder "+dir+" any longer; revision "+revision[:12]) {
		t.Errorf("%v", done)
	}
	waitFor(t, "a replica with the new limit", func() bool {
		m := modelOf(t, conn)
		return m.GetState() == messages.DeploymentState_DEPLOYMENT_STATE_READY &&
			m.GetSpec().GetMaxWaiting() == 7 && m.GetReplicas()[0].GetRevisionDigest() == revision
	})
	if got, ok := greedyText(t, n); !ok || got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestGoneFolderIsNoFault removes the folder of a model whose weights the node has in the host cache. The model
// stays ready, and an event says that the folder is gone and where the weights are. On a node that has them
// nowhere else, the model is degraded until the folder is back.
func TestGoneFolderIsNoFault(t *testing.T) {
	t.Parallel()
	for _, host := range []int64{64 << 20, 0} {
		dir := copyOfModel(t)
		n := start(t, func(c *node.Config) { c.Deployments[0].Path, c.WeightsHostBytes = dir, host })
		conn := connect(t, n)
		events := recordEvents(t, conn, "troupe.v1.events.folder.>")
		if text, ok := greedyText(t, n); !ok {
			t.Fatal(text)
		}
		if host > 0 {
			waitFor(t, "an image in the host cache", func() bool {
				cache, _ := hostCache(t, conn)
				return len(cache.GetImages()) == 1
			})
		}
		if err := os.Rename(dir, dir+".gone"); err != nil {
			t.Fatal(err)
		}
		degraded := func() bool {
			return modelOf(t, conn).GetState() == messages.DeploymentState_DEPLOYMENT_STATE_DEGRADED
		}
		if host == 0 {
			waitFor(t, "a degraded model", degraded)
			if detail := modelOf(t, conn).GetDetail(); !strings.Contains(detail, "put the folder back") {
				t.Error(detail)
			}
			if err := os.Rename(dir+".gone", dir); err != nil {
				t.Fatal(err)
			}
			waitFor(t, "a model without a fault", func() bool { return !degraded() })
			continue
		}
		waitFor(t, "the event", func() bool {
			return slices.ContainsFunc(events.all(), func(e string) bool {
				return strings.Contains(e, "folder.missing") && strings.Contains(e, dir) &&
					strings.Contains(e, "host cache")
			})
		})
		if m := modelOf(t, conn); m.GetState() != messages.DeploymentState_DEPLOYMENT_STATE_READY ||
			m.GetReplicas()[0].GetFolderFault() != "" {
			t.Errorf("%v", m)
		}
	}
}
