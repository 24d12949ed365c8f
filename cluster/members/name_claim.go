package members

import (
	"time"

	"troupe/messages"
)

// verdict is the decision about a claim to a name, which may already have a record.
type verdict int

const (
	take   verdict = iota // write over exactly the revision that was read
	wait                  // read the record again later
	refuse                // a live member has the name
)

// decideClaim decides whether a node may claim a name. first is the record read at the time since,
// e is the current record.
func decideClaim(first, e entry, instance string, since, now time.Time, grace time.Duration) verdict {
	switch {
	case e.member == nil, instance != "" && e.member.GetInstance() == instance:
		return take
	case e.revision != first.revision:
		return refuse
	case now.Sub(since) >= grace:
		return take
	}
	return wait
}

// renewOver decides whether a member may renew again after its renewal was refused, given the
// current record e of its key. It may write over its own record, if only the reply to a renewal was
// lost, and over revision 0, if the bucket has lost the record. Otherwise the member was fenced.
func renewOver(self *messages.Member, e entry) (over uint64, alive bool) {
	return e.revision, e.revision == 0 || e.memberID() == self.GetId()
}

// nextIncarnation returns an incarnation that no earlier member of the name had: the current time
// in milliseconds, or one more than the highest known incarnation if that is later.
func nextIncarnation(now time.Time, last ...uint64) uint64 {
	next := uint64(now.UnixMilli())
	for _, l := range last {
		next = max(next, l+1)
	}
	return next
}
