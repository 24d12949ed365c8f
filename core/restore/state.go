package restore

import (
	"time"

	"troupe/core/kv"
)

// State is the state of an entry: a sequence, a command, or the copies that either left behind.
type State uint8

// States.
const (
	Gone       State = iota // not tracked
	Pending                 // to be looked up before its admission
	Waiting                 // held until another entry with the same first block ends
	LookingUp               // held; its blocks are being looked up
	Found                   // held; its lookup is done and not judged yet
	Reserving               // held; destinations for its blocks are being reserved
	Restoring               // held; its blocks are being copied
	Ready                   // like Restoring, but it may start
	Overlapped              // it runs, and its blocks are still being copied
	Failed                  // held again: its first step was aborted
	Preempted               // held again: it was preempted before its first step was done
	Taken                   // its first step is done, and its copies have not ended
	Orphaned                // lookup of a sequence that no longer exists
	Abandoned               // copies for a sequence that no longer exists
)

func (s State) String() string {
	return [...]string{"gone", "pending", "waiting", "looking-up", "found", "reserving", "restoring", "ready",
		"overlapped", "failed", "preempted", "taken", "orphaned", "abandoned"}[s]
}

// Event is a kind of event. Each but Woken is a method of Machine.
type Event uint8

// Events.
const (
	Queued      Event = iota // a sequence was submitted or preempted
	Admissible               // a sequence is admitted next
	Prefetch                 // a command restores a prefix
	LookedUp                 // a lookup is done
	Judged                   // between two steps: a lookup is to be judged
	Reserved                 // destinations were reserved
	Arrived                  // a further part of all blocks has arrived
	Start                    // between two steps: entries that are ready may start
	Started                  // a sequence runs on blocks that are still being copied
	StepDone                 // the first step of such a sequence is done
	StepAborted              // the first step of such a sequence was aborted: its gate failed
	Copied                   // the copies have ended
	Ended                    // between two steps: ended copies are to be applied
	Woken                    // the entry that a sequence waited for has ended
	Dropped                  // a sequence no longer exists
	Lost                     // the copier has restarted
)

func (e Event) String() string {
	return [...]string{"queued", "admissible", "prefetch", "looked-up", "judged", "reserved", "arrived", "start",
		"started", "step-done", "step-aborted", "copied", "ended", "woken", "dropped", "lost"}[e]
}

// Candidate is the sequence that is admitted next.
type Candidate struct {
	ID     string
	Hashes []kv.Hash // of the blocks that it can start with
	Have   int       // leading ones in HBM
	Remote bool      // there are other replicas or nodes to fetch from
}

// Sequence is what the judgment of a lookup depends on.
type Sequence struct {
	Waits  bool // it is known, and not running
	Tokens int  // of its prompt and output
}

// Result is the result of copies.
type Result struct {
	Blocks               int    // leading blocks that were copied
	Reads                []Read // by tier
	Fetched, FetchFailed int    // blocks from remote holders
	Why                  string // why blocks were not copied; empty if all were
}

// Read is what copies read from a tier.
type Read struct {
	Bytes int64
	Took  time.Duration
}

// Counts are totals since the machine was created, of blocks unless stated otherwise.
type Counts struct {
	Restored    uint64 // from tiers
	Recomputed  uint64 // found, and not restored
	Restores    uint64 // number of sequences
	Avoided     uint64 // number of sequences whose blocks were found and not restored
	Fetched     uint64
	FetchFailed uint64
	Overlapped  uint64 // number of sequences
	Aborted     uint64 // number of steps
}
