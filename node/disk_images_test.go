package node_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"troupe/messages"
	"troupe/node"
)

// TestImageOnDiskServesAfterRestart restarts a node whose model folder is gone. The replica and the
// gateway use the image on disk, with the same output.
func TestImageOnDiskServesAfterRestart(t *testing.T) {
	dir, data := copyOfModel(t), t.TempDir()
	set := func(c *node.Config) {
		c.Deployments[0].Path, c.WeightsHostBytes = dir, 64<<20
		c.WeightsDiskBytes, c.WeightsDiskPath = 64<<20, filepath.Join(data, "weights")
		c.DataDir = data
	}
	n := start(t, set)
	conn := connect(t, n)
	want, _ := greedyText(t, n)
	var status *messages.HostCacheStatus
	waitFor(t, "the image on disk", func() bool {
		status, _ = hostCache(t, conn)
		all := status.GetDisk().GetImages()
		return len(all) == 1 && all[0].GetState() == "ready" && all[0].GetModel() == "kjv"
	})
	tree := answer[messages.TreeResponse](t, conn, "troupe.v1.tree", `{"format": "text"}`).GetText()
	if !regexp.MustCompile(`(?m)disk-[0-9a-f]{12} +weights kjv +cold, [\d.]+ MiB$`).MatchString(tree) {
		t.Errorf("no image on disk in the tree:\n%s", tree)
	}
	if err := errors.Join(n.Stop(context.Background()), os.RemoveAll(dir)); err != nil {
		t.Fatal(err)
	}
	n = start(t, func(c *node.Config) { set(c); c.Deployments = nil })
	waitFor(t, "the model to serve", func() bool {
		got, ok := greedyText(t, n)
		return ok && got == want
	})
}
