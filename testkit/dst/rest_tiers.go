package dst

import (
	"troupe/actors/kvblock"
	"troupe/messages"
	"troupe/node/query"
)

// restlessTiers checks the tiers of a node: no slot is reserved, no block is read, and no block is
// fetched.
func (c *cluster) restlessTiers(n *Node, report func(string, ...any)) {
	for _, tier := range []string{"dram", "nvme", kvblock.RemoteName} {
		s, ok := ask[*messages.SlotsStatus](c, n, n.pid(query.Tier(tier)), &messages.GetSlots{RequestId: "rest"})
		switch {
		case !ok:
			report("%s: tier %s does not answer", n.cfg.Name, tier)
		case tier == kvblock.RemoteName && s.GetFetches()+s.GetWaiting()+uint32(s.GetTakenBytes()) > 0:
			report("%s: %d fetches of %d bytes, and %d wait", n.cfg.Name, s.GetFetches(), s.GetTakenBytes(),
				s.GetWaiting())
		case tier != kvblock.RemoteName && (s.GetArriving()+s.GetLeaving() > 0 ||
			s.GetFree()+s.GetResident() != s.GetSlots()):
			report("%s: tier %s has %d slots: %d free, %d arriving, %d resident, %d leaving", n.cfg.Name, tier,
				s.GetSlots(), s.GetFree(), s.GetArriving(), s.GetResident(), s.GetLeaving())
		case s.GetPinned() > 0:
			report("%s: %d blocks of tier %s are pinned", n.cfg.Name, s.GetPinned(), tier)
		}
	}
}
