package residency_test

import (
	"strings"
	"testing"
	"time"

	"troupe/core/loadsource"
	"troupe/engine"
	"troupe/engine/residency"
)

// TestSourceByMeasuredTime loads weights that the host cache and another node have. The node is used if its loads
// were faster than those of the host cache, and the reason has both figures. If the node fails, the host cache
// delivers what is missing; if it was not measured, or was slower, it is not read.
func TestSourceByMeasuredTime(t *testing.T) {
	v := newVerified(t)
	inHost := loadsource.Path{Kind: loadsource.Host, To: "gpu-0"}
	inFolder := loadsource.Path{Kind: loadsource.Folder, From: residency.DiskOf(v.path)}
	onNode := loadsource.Path{Kind: loadsource.Node, From: "node b"}
	if _, err := v.load(); err != nil {
		t.Fatal(err)
	}
	want := v.output()
	v.leave()
	image, content := imageOfModel(t, v.path, engine.Digests{})
	for _, c := range []struct {
		name       string
		host, node int64 // bytes in a second; 0: not measured
		parts      int   // that the node delivers
		from       string
		read       bool // from the node
		why        []string
	}{
		{"a faster node", 1, 1 << 40, 1000, "node b", true, []string{"node b: 1 TiB/s measured",
			"host cache: 1 B/s measured"}},
		{"a node that fails", 1, 1 << 40, 0, "host cache", false, []string{"node b is lost",
			"host cache had the rest"}},
		{"a slower node", 1 << 40, 1, 1000, "host cache", false, []string{"host cache: 1 TiB/s measured"}},
		{"a node that was not measured", 1, 0, 1000, "host cache", false, []string{"host cache: 1 B/s measured"}},
		{"nothing was measured", 0, 0, 1000, "host cache", false, []string{"host cache: 14.9 GiB/s assumed"}},
	} {
		speeds := &residency.Speeds{}
		for range 5 {
			speeds.Observe(inHost, c.host, time.Second)
			speeds.Observe(onNode, c.node, time.Second)
			speeds.Observe(inFolder, 1, time.Second)
		}
		v.store.ShareSpeeds(speeds, "gpu-0")
		node := &source{name: "node b", image: image, content: content, parts: c.parts, read: make(map[int]int)}
		v.store.UseOtherNodes(nodes{node})
		l, err := v.load()
		if err != nil || v.output() != want || l.From.Source != c.from || len(node.read) > 0 != c.read ||
			l.From.Floor <= 0 {
			t.Errorf("%s: %+v, %v, %d parts of the node", c.name, l.From, err, len(node.read))
		}
		for _, why := range c.why {
			if !strings.Contains(l.From.Why, why) {
				t.Errorf("%s: %q lacks %q", c.name, l.From.Why, why)
			}
		}
		v.leave()
	}
	if len(v.images1()) != 1 {
		t.Error("the image is gone")
	}
}
