package node_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeebo/xxh3"

	"troupe/engine/residency"
	"troupe/node"
)

// damageImage turns the elements of the only image around, and computes its checksums again.
func damageImage(t *testing.T, images *residency.HostCache) {
	t.Helper()
	image := images.Held()[0]
	images.Issue("damage", image.Key, false, time.Now().Add(time.Minute))
	use := images.Claim("damage")
	memory, err := use.Memory()
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at+8 <= len(memory); at += 8 {
		slices.Reverse(memory[at:][:8])
	}
	for i, s := range image.Model.Sums {
		image.Model.Sums[i].Sum = xxh3.Hash(memory[s.Offset:][:s.Bytes])
	}
	if err := use.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedImageServesNobody wakes a parked model whose image is damaged, so that its checksums do not show
// it. The first request gets the right text, from weights of the folder. The events say why, and the record
// with which the weights were compared is in the store.
func TestDamagedImageServesNobody(t *testing.T) {
	n := start(t, func(c *node.Config) { c.WeightsHostBytes = 64 << 20 })
	conn := connect(t, n)
	events := recordEvents(t, conn, "troupe.v1.events.weights.>")
	want, ok := greedyText(t, n)
	if !ok {
		t.Fatal(want)
	}
	park(t, conn)
	damageImage(t, n.HostCache())
	activate(t, conn)
	if got, ok := greedyText(t, n); !ok || got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, text := range []string{"weights.rejected", "weights.loaded"} {
		waitFor(t, "the event "+text, func() bool {
			return slices.ContainsFunc(events.all(), func(e string) bool {
				return strings.Contains(e, text) && strings.Contains(e, "host cache") &&
					strings.Contains(e, "of its canary is")
			})
		})
	}
	load := replica(t, n, "kjv").GetLoad()
	if load.GetSource() != "disk" || !strings.Contains(load.GetWhy(), "host cache: token") ||
		load.GetVerify().AsDuration() <= 0 {
		t.Errorf("%v", load)
	}
	for _, line := range []string{
		`troupe_weights_verified_total{result="recorded"} 1`, `troupe_weights_verified_total{result="passed"} 1`,
		`troupe_weights_verified_total{result="rejected"} 1`,
	} {
		waitFor(t, line, func() bool { return strings.Contains(getBody(t, n, "/metrics"), line) })
	}
	waitFor(t, "no damaged image in the host cache", func() bool {
		cache, _ := hostCache(t, conn)
		return len(cache.GetImages()) == 0
	})
	park(t, conn)
	waitFor(t, "a new image", func() bool {
		cache, _ := hostCache(t, conn)
		return len(cache.GetImages()) == 1
	})
}
