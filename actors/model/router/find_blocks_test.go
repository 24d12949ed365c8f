package router_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"troupe/messages"
	"troupe/testkit"
)

// findBlocks requests the holders of blocks for a replica and formats the result.
func (w *testCluster) findBlocks(n *node, replica string, blocks, inTiers []uint64) string {
	w.t.Helper()
	w.client.Send(n.PID, &messages.FindBlocks{RequestId: "f", Model: "m", Replica: replica, Blocks: blocks,
		InTiers: inTiers})
	synctest.Wait()
	all := testkit.Got[*messages.FindBlocksResult](w.client)
	var words []string
	for _, h := range all[len(all)-1].GetHeld() {
		words = append(words, fmt.Sprintf("%d+%d %s (%s)", h.GetFirst(), h.GetBlocks(), h.GetName(),
			h.GetHolder().GetId()))
	}
	return strings.Join(words, ", ")
}

// announceTier sends a tier's announcement to the router of its node.
func (w *testCluster) announceTier(n *node, name string, snapshot bool, evicted []uint64, committed ...uint64) {
	w.t.Helper()
	w.client.Send(n.PID, &messages.TierAnnounced{
		Name: name, Actor: &messages.ActorRef{Address: w.sys.Address(), Id: n.name + "-" + name}, Snapshot: snapshot,
		Evicted: evicted, Committed: committed,
	})
	w.pass(time.Second)
}

// TestFindBlocks checks that routers know the blocks of the replicas and tiers of all nodes, also
// after lost messages and a crash. The requester, the tiers of its node, silent nodes and nodes
// that left do not count as holders.
func TestFindBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := play(t)
		crash := &testkit.Crash{On: "*messages.GetClusterView", Times: 1}
		a, b := w.start("a", crash.Middleware), w.start("b")
		w.setMembers(a, b)
		w.announce(a, "m-0", nil)
		w.announce(b, "m-1", func(m *messages.ReplicaAnnounced) { m.Committed = []uint64{1, 2} })
		w.announceTier(b, "dram", true, nil, 11, 12, 13, 14)
		w.announceTier(a, "dram", true, nil, 11, 12, 13, 14, 15)
		blocks, inTiers := []uint64{1, 2, 3, 4, 5}, []uint64{11, 12, 13, 14, 15}
		expect := func(of *node, replica string, from int, want string) {
			t.Helper()
			if got := w.findBlocks(of, replica, blocks[from:], inTiers[from:]); got != want {
				t.Errorf("%s from %d: %q, want %q", of.name, from, got, want)
			}
		}
		expect(a, "m-0", 0, "0+4 dram on b (b-dram)")
		expect(b, "m-1", 0, "0+5 dram on a (a-dram)")
		expect(a, "m-0", 4, "")
		w.announceTier(b, "dram", false, []uint64{11, 14})
		expect(a, "m-0", 0, "0+2 replica m-1 on b (m-1), 2+1 dram on b (b-dram)")
		expect(a, "m-0", 1, "0+2 dram on b (b-dram)")
		expect(b, "m-1", 1, "0+4 dram on a (a-dram)")
		w.setDrop(func(to string, m proto.Message) bool {
			_, ok := m.(*messages.RoutesAnnounced)
			return ok && to == "a"
		})
		w.pass(2 * time.Second)
		expect(a, "m-0", 0, "") // b is silent
		expect(a, "m-0", 1, "")
		w.setDrop(nil)
		w.pass(time.Second)
		expect(a, "m-0", 0, "0+2 replica m-1 on b (m-1), 2+1 dram on b (b-dram)")

		lost := 0
		w.setDrop(func(to string, m proto.Message) bool {
			n, ok := m.(*messages.RoutesAnnounced)
			if !ok || to != "a" || len(n.GetTiers()) == 0 || n.GetSnapshot() || lost > 0 {
				return false
			}
			lost++
			return true
		})
		w.announceTier(b, "dram", false, nil, 14)
		if expect(a, "m-0", 2, "0+2 dram on b (b-dram)"); lost == 0 {
			t.Error("no delta was dropped")
		}

		w.client.Send(a.PID, &messages.GetClusterView{})
		w.pass(2 * time.Second)
		if expect(a, "m-0", 2, "0+2 dram on b (b-dram)"); crash.Crashed() == 0 {
			t.Error("no crash")
		}
		w.announceTier(b, "dram", true, nil, 13)
		expect(a, "m-0", 2, "0+1 dram on b (b-dram)")
		w.setMembers(a)
		expect(a, "m-0", 0, "")
	})
}
