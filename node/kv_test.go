package node_test

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"troupe/messages"
	"troupe/node"
)

// withManualTiers gives a node tiers to which blocks are demoted only by command.
func withManualTiers(t *testing.T) func(*node.Config) {
	path := filepath.Join(t.TempDir(), "kv")
	return func(c *node.Config) {
		c.Tiers = node.TiersConfig{DRAMBytes: 8 << 20, NVMeBytes: 16 << 20, NVMePath: path, Watermark: 1}
		c.Middleware = wired
	}
}

const system = "You know the books of Moses by heart. Answer in the words of the book, and in no others; " +
	"where it says nothing of the matter, say so."

// completeShort generates eight tokens.
func completeShort(t *testing.T, n *node.Node, prompt string) (text string, cached int) {
	t.Helper()
	c := complete(t, n,
		map[string]any{"model": "kjv", "prompt": prompt, "max_tokens": 8, "temperature": 0, "ignore_eos": true})
	return c.Choices[0].Text, c.Usage.Details.Cached
}

// TestKVCommands checks that commands offload, flush and restore blocks, and that restored blocks
// are not computed again and give the same tokens.
func TestKVCommands(t *testing.T) {
	n := start(t, withManualTiers(t))
	conn := connect(t, n)
	prompt := strings.Repeat(system, 3)
	want, cached := completeShort(t, n, prompt)
	if cached != 0 {
		t.Fatalf("%d tokens are cached before", cached)
	}
	down := answer[messages.KvOffloadResponse](t, conn, "troupe.v1.kv.offload", `{"model":"kjv"}`).GetMoved()
	if len(down) != 1 || down[0].GetBlocks() < 5 || down[0].GetDetail() != "" || down[0].GetReplica() != "kjv-0" ||
		down[0].GetBytes() != uint64(down[0].GetBlocks())*49152 {
		t.Fatalf("%v", down)
	}
	if again := answer[messages.KvOffloadResponse](t, conn, "troupe.v1.kv.offload",
		`{}`).GetMoved(); again[0].GetBlocks() != 0 {
		t.Errorf("offloaded blocks were copied again: %v", again)
	}
	stats := answer[messages.KvStatsResponse](t, conn, "troupe.v1.kv.stats", "").GetNodes()[0]
	if dram := stats.GetTiers()[0]; dram.GetSlots().GetResident() != down[0].GetBlocks() ||
		dram.GetSlots().GetTakenBytes() != 49152*uint64(down[0].GetBlocks()) ||
		dram.GetPolicy() != "s3-fifo" {
		t.Errorf("%v", dram)
	}
	if p := stats.GetPaths(); len(p) != 1 || p[0].GetFrom() != "hbm" || p[0].GetTo() != "dram" ||
		p[0].GetBytes() != down[0].GetBytes() ||
		p[0].GetSeconds() <= 0 {
		t.Errorf("%v", p)
	}
	gone := answer[messages.KvFlushResponse](t, conn, "troupe.v1.kv.flush", `{"tier":"hbm"}`).GetMoved()
	if len(gone) != 1 || gone[0].GetBlocks() != down[0].GetBlocks() {
		t.Errorf("%v", gone)
	}
	up := answer[messages.KvRestoreResponse](t, conn, "troupe.v1.kv.restore",
		fmt.Sprintf(`{"model":"kjv","prompt":%q}`, prompt)).GetMoved()
	if len(up) != 1 || up[0].GetBlocks()+1 < down[0].GetBlocks() ||
		up[0].GetPresent() != 0 { // the last block includes tokens of the answer
		t.Errorf("%v, after %v", up, down)
	}
	if again := answer[messages.KvRestoreResponse](t, conn, "troupe.v1.kv.restore",
		fmt.Sprintf(`{"model":"kjv","prompt":%q}`, prompt)).GetMoved(); again[0].GetPresent() != up[0].GetBlocks() {
		t.Errorf("%v", again)
	}
	if got, cached := completeShort(t, n, prompt); got != want || cached != int(up[0].GetBlocks())*16 {
		t.Errorf("%q with %d tokens cached; want %q with %d", got, cached, want, up[0].GetBlocks()*16)
	}
	all := answer[messages.KvFlushResponse](t, conn, "troupe.v1.kv.flush", "").GetMoved()
	if got, cached := completeShort(t, n, prompt); got != want || cached != 0 || len(all) != 3 {
		t.Errorf("after %v: %q with %d tokens cached", all, got, cached)
	}
	for _, line := range []string{
		`troupe_kv_blocks{state="resident",tier="dram"} 0`,
		`troupe_kv_capacity_bytes{tier="nvme"} 1.6777216e+07`, `troupe_kv_taken_bytes{tier="nvme"} 0`,
		fmt.Sprintf(`troupe_kv_demotions_total{tier="hbm"} %d`, down[0].GetBlocks()),
		fmt.Sprintf(`troupe_kv_dropped_total{tier="dram"} %d`, down[0].GetBlocks()),
		fmt.Sprintf(`troupe_kv_copy_seconds_count{from="dram",to="hbm"} %d`, up[0].GetBlocks()),
		`troupe_kv_damaged_total{tier="nvme"} 0`,
		fmt.Sprintf(`troupe_kv_copied_bytes_total{from="hbm",to="dram"} %d`, down[0].GetBytes()),
		`troupe_kv_restores_total{choice="avoided",model="kjv"} 0`,
	} {
		waitFor(t, line, func() bool { return strings.Contains(scrape(t, n), line+"\n") })
	}
}

// TestIdleBlocksAreDemoted checks that unused blocks are copied to DRAM and then to NVMe although
// there is room.
func TestIdleBlocksAreDemoted(t *testing.T) {
	n := start(t, withLight(t, withManualTiers(t)))
	conn := connect(t, n)
	want, _ := completeShort(t, n, system)
	more := func() { // idle time is counted in steps
		complete(t, n,
			map[string]any{"model": "kjv", "prompt": "And", "max_tokens": 150, "ignore_eos": true, "seed": 1})
	}
	waitFor(t, "idle blocks to be in DRAM", func() bool {
		more()
		return kvStats(t, conn).GetTiers()[0].GetSlots().GetArrivals() >= 4
	})
	if s := kvStats(t, conn); s.GetTiers()[1].GetSlots().GetArrivals() > 0 {
		t.Errorf("on the disk too early: %v", s)
	}
	steps := func() uint64 { return kvStats(t, conn).GetReplicas()[0].GetSteps() } // of the last report
	waitFor(t, "100 steps, and not fewer, before", func() bool { return steps() >= 100 })
	waitFor(t, "idle blocks to be on the disk", func() bool {
		more()
		return kvStats(t, conn).GetTiers()[1].GetSlots().GetResident() >= 4
	})
	waitFor(t, "1000 steps, and not fewer, before", func() bool { return steps() >= 1000 })
	if s := kvStats(t, conn); s.GetTiers()[0].GetSlots().GetDemotions() < 4 {
		t.Errorf("%v", s)
	}
	if got, cached := completeShort(t, n, system); got != want || cached < 32 {
		t.Errorf("%q with %d tokens cached, and %q before", got, cached, want)
	}
}

// scrape returns the metrics of KV blocks, adapters, sequences and models.
func scrape(t *testing.T, n *node.Node) (lines string) {
	t.Helper()
	res, err := http.Get("http://" + n.HTTPAddr() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	sections := []string{"kv", "adapter", "host", "sequences", "model"}
	for line := range strings.Lines(string(text)) {
		section, _, _ := strings.Cut(strings.TrimPrefix(line, "troupe_"), "_")
		if slices.Contains(sections, section) && !strings.Contains(line, "_bucket") {
			lines += line
		}
	}
	return lines
}

// TestPinnedPrefix checks that pinned blocks survive flushes and memory pressure, that a replica
// that lost them restores them, and that the pin survives restarts of the replica and the node.
func TestPinnedPrefix(t *testing.T) {
	data, config := t.TempDir(), withManualTiers(t)
	life := func(name string, body func(*testing.T, *node.Node)) {
		t.Run(name, func(t *testing.T) {
			body(t, start(t, func(c *node.Config) {
				config(c)
				c.DataDir = data
				c.Deployments[0].KvBlocks = new(uint32(70))
				c.Tiers.DRAMBytes = 0 // so that all blocks survive a restart
			}))
		})
	}
	life("pin", func(t *testing.T, n *node.Node) {
		conn := connect(t, n)
		pin := answer[messages.KvPinResponse](t, conn, "troupe.v1.kv.pin",
			fmt.Sprintf(`{"name":"moses","model":"kjv","prompt":%q}`, system)).GetPin()
		blocks := pin.GetBlocks()
		if blocks < 2 || len(pin.GetTokens()) != int(blocks)*16 {
			t.Fatalf("%v", pin)
		}
		want, _ := completeShort(t, n, system+" And the people said unto him,")
		waitFor(t, "its blocks to be pinned in HBM and on disk", func() bool {
			completeShort(t, n, "a") // idle time is counted in steps
			s := answer[messages.KvStatsResponse](t, conn, "troupe.v1.kv.stats", `{"node":"test"}`)
			if p := s.GetPins(); len(p) != 1 || p[0].GetName() != "moses" || p[0].GetBlocks() != blocks ||
				len(p[0].GetTokens()) > 0 {
				t.Fatalf("%v", p)
			}
			return s.GetNodes()[0].GetReplicas()[0].GetKvBlocksPinned() == blocks &&
				s.GetNodes()[0].GetTiers()[0].GetSlots().GetPinned() == blocks
		})
		answer[messages.KvFlushResponse](t, conn, "troupe.v1.kv.flush", "")
		completeConversations(t, n, 8) // more than fits
		// The block after them may have been on its way to the disk, so that the flush left it.
		if got, cached := completeShort(t, n, system+" And the people said unto him,"); got != want ||
			cached < int(blocks)*16 {
			t.Errorf("%q with %d tokens cached; want %q with at least %d", got, cached, want, blocks*16)
		}
		request(t, conn, "troupe.v1.replicas.restart", `{"name":"kjv-0"}`)
		waitFor(t, "the restarted replica to pin its blocks", func() bool {
			r := kvStats(t, conn).GetReplicas()[0]
			return r.GetIncarnation() == 2 && r.GetKvBlocksPinned() == blocks
		})
	})
	life("unpin", func(t *testing.T, n *node.Node) {
		conn := connect(t, n)
		waitFor(t, "its blocks to be restored from NVMe",
			func() bool { return kvStats(t, conn).GetReplicas()[0].GetKvBlocksPinned() > 1 })
		if _, cached := completeShort(t, n, system+" And the people said unto him,"); cached < 32 {
			t.Errorf("%d tokens cached", cached)
		}
		answer[messages.KvUnpinResponse](t, conn, "troupe.v1.kv.unpin", `{"name":"moses"}`)
		waitFor(t, "its blocks to be unpinned", func() bool {
			s := kvStats(t, conn)
			return s.GetReplicas()[0].GetKvBlocksPinned() == 0 && s.GetTiers()[0].GetSlots().GetPinned() == 0
		})
		answer[messages.KvFlushResponse](t, conn, "troupe.v1.kv.flush", "")
		if _, cached := completeShort(t, n, system+" And the people said unto him,"); cached != 0 {
			t.Errorf("%d flushed tokens are cached", cached)
		}
	})
}

// kvStats returns the KV stats of the only node, once it has a replica.
func kvStats(t *testing.T, conn *nats.Conn) *messages.KvNode {
	t.Helper()
	for {
		n := answer[messages.KvStatsResponse](t, conn, "troupe.v1.kv.stats", "").GetNodes()[0]
		if len(n.GetReplicas()) > 0 && len(n.GetTiers()) > 0 {
			return n
		}
	}
}

// TestBlocksTooLarge checks that a replica whose blocks do not fit into a slab runs without tiers,
// and returns a corresponding error when it is asked to move blocks.
func TestBlocksTooLarge(t *testing.T) {
	n := start(t, func(c *node.Config) {
		withManualTiers(t)(c)
		c.Tiers.DRAMBytes, c.Tiers.NVMeBytes = 256<<10, 256<<10
	})
	completeShort(t, n, system)
	conn := connect(t, n)
	m := request(t, conn, "troupe.v1.kv.offload", "")
	if !strings.Contains(string(m.Data), "no KV tier below HBM that fits its blocks; start it with --kv-dram") {
		t.Errorf("%s", m.Data)
	}
	if s := kvStats(t, conn); s.GetTiers()[0].GetSlotBytes() != 32<<10 || s.GetTiers()[0].GetSlots().GetArrivals() > 0 {
		t.Errorf("%v", s)
	}
}

// TestKVOfTwoNodes checks that any node carries out KV commands on all nodes.
func TestKVOfTwoNodes(t *testing.T) {
	nodes := startCluster(t, 2, func(_ int, c *node.Config) { withManualTiers(t)(c) })
	deploy(t, nodes[0], kjvSpec(2), nodes[1])
	for _, n := range nodes {
		for i := range 4 { // fewer steps than hbmIdleSteps, even if all run on one node
			completeShort(t, n, fmt.Sprintf("%d: %s", i, system))
		}
	}
	conn := connect(t, nodes[1])
	down := answer[messages.KvOffloadResponse](t, conn, "troupe.v1.kv.offload", "").GetMoved()
	if len(down) != 2 || down[0].GetNode() != "a" || down[1].GetNode() != "b" ||
		down[0].GetBlocks()+down[1].GetBlocks() < 8 {
		t.Errorf("%v", down)
	}
	one := answer[messages.KvOffloadResponse](t, conn, "troupe.v1.kv.offload", `{"node":"a"}`).GetMoved()
	if len(one) != 1 || one[0].GetNode() != "a" {
		t.Errorf("%v", one)
	}
	for i, s := range answer[messages.KvStatsResponse](t, conn, "troupe.v1.kv.stats", "").GetNodes() {
		if s.GetTiers()[0].GetSlots().GetResident() != down[i].GetBlocks() || s.GetUnreachable() != "" {
			t.Errorf("%v, and %v was offloaded", s, down[i])
		}
	}
	for _, m := range answer[messages.KvFlushResponse](t, conn, "troupe.v1.kv.flush", `{"tier":"remote"}`).GetMoved() {
		if m.GetTier() != "remote" || !strings.Contains(m.GetDetail(), "this tier keeps no blocks") ||
			m.GetUnreachable() != "" {
			t.Errorf("%v", m)
		}
	}
}
