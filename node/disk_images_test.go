package node_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"troupe/core/units"
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

// TestParkedOnDisk parks a model that does not fit into the host cache. It goes to its image on disk, which
// the event says, and is activated with its folder deleted, with the same output.
func TestParkedOnDisk(t *testing.T) {
	for _, budget := range []int64{0, 1 << 20} {
		t.Run(units.FormatBytes(budget), func(t *testing.T) {
			t.Parallel()
			dir, data := copyOfModel(t), t.TempDir()
			n := start(t, func(c *node.Config) {
				c.Deployments[0].Path, c.WeightsHostBytes = dir, budget
				c.WeightsDiskBytes, c.WeightsDiskPath = 64<<20, filepath.Join(data, "weights")
			})
			conn := connect(t, n)
			events := recordEvents(t, conn, "troupe.v1.events.weights.>")
			want, ok := greedyText(t, n)
			if !ok {
				t.Fatal(want)
			}
			park(t, conn)
			waitFor(t, "the event", func() bool { return events.have("in an image on disk: no room for an image") })
			status, _ := hostCache(t, conn)
			all := status.GetDisk().GetImages()
			if len(all) != 1 || all[0].GetState() != "ready" || !all[0].GetPinned() || len(status.GetImages()) != 0 {
				t.Errorf("images of a parked model: %v", status)
			}
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			activate(t, conn)
			if got, ok := greedyText(t, n); !ok || got != want {
				t.Errorf("after: %q, want %q", got, want)
			}
			waitFor(t, "the image to be unpinned", func() bool {
				status, _ := hostCache(t, conn)
				return len(status.GetDisk().GetImages()) == 1 && !status.GetDisk().GetImages()[0].GetPinned()
			})
			if !events.have("from disk image") {
				t.Errorf("events: %v", events.all())
			}
		})
	}
}
