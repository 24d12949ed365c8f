package node_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"troupe/messages"
	"troupe/node"
)

// TestDeployGoneFolder deploys a model again whose folder is gone. The node has an image of the deployed
// revision, which stays deployed, though an image of other files that the folder had was used later.
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
		m := answer[messages.GetModelResponse](t, conn, "troupe.v1.models.get", `{"name": "second"}`).GetModel()
		return m.GetState() == messages.DeploymentState_DEPLOYMENT_STATE_READY
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
