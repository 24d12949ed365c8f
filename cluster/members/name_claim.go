package members

import (
	"time"

	"troupe/messages"
)

// verdict is what a node that wants a name does about the record that has it.
type verdict int

const (
	take   verdict = iota // over exactly the revision that was looked at
	wait                  // and look again
	refuse                // a live member has it
)

// admit decides whether a node may take a name. first is the record as it was found at the time since, e as it is now.
func decideClaim(first, e entry, instance string, since, now time.Time, patience time.Duration) verdict {
	switch {
	case e.member == nil, instance != "" && e.member.GetInstance() == instance:
		return take
	case e.revision != first.revision:
		return refuse
	case now.Sub(since) >= patience:
		return take
	}
	return wait
}

// renewOver says what became of a member whose renewal was refused, by the record that has its key now: it may go on over a
// revision (its own, of which it had not heard, or none where the bucket has lost it), or it was fenced.
func renewOver(self *messages.Member, e entry) (over uint64, alive bool) {
	return e.revision, e.revision == 0 || e.memberID() == self.GetId()
}

// nextIncarnation returns one that no member of the name had before: the time, or one more than the last that is known.
func nextIncarnation(now time.Time, last ...uint64) uint64 {
	next := uint64(now.UnixMilli())
	for _, l := range last {
		next = max(next, l+1)
	}
	return next
}
