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
	Pending                 // its blocks are to be looked up before it is admitted
	Waiting                 // held; another entry restores the same first block
	LookingUp               // held; its blocks are being looked up
	Found                   // held; its lookup is done but not judged yet
	Reserving               // held; destinations for its blocks are being reserved
	Restoring               // held; its blocks are being copied
	Ready                   // like Restoring, but the sequence may start
	Overlapped              // the sequence runs, and its blocks are still being copied
	Failed                  // held again; its first step was aborted
	Preempted               // held again; it was preempted before its first step was done
	Taken                   // its first step is done, but its copies have not ended
	Orphaned                // a lookup for a sequence that no longer exists
	Abandoned               // copies for a sequence that no longer exists
)

func (s State) String() string {
	return [...]string{"gone", "pending", "waiting", "looking-up", "found", "reserving", "restoring", "ready",
		"overlapped", "failed", "preempted", "taken", "orphaned", "abandoned"}[s]
}

// Event is a kind of event. Each except Woken is a method of Machine.
type Event uint8

// Events.
const (
	Queued      Event = iota // a sequence was submitted or preempted
	Admissible               // a sequence is next in line for admission
	Prefetch                 // a command restores a prefix
	LookedUp                 // a lookup is done
	Judged                   // between two steps: a lookup is to be judged
	Reserved                 // destinations were reserved
	Arrived                  // another part of all blocks has arrived
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

// Candidate is the sequence that is next in line for admission.
type Candidate struct {
	ID     string
	Hashes []kv.Hash // of the blocks that it can start with
	Have   int       // number of leading blocks in HBM
	Remote bool      // there are other replicas or nodes to fetch from
}

// Sequence is the state of a sequence that the judgment of its lookup depends on.
type Sequence struct {
	Waits  bool // it is in the scheduler and does not run
	Tokens int  // number of tokens of its prompt and output
}

// Result is the result of copies.
type Result struct {
	Blocks               int    // number of leading blocks that were copied
	Reads                []Read // reads by tier
	Fetched, FetchFailed int    // number of blocks from remote holders
	Why                  string // why some blocks were not copied; empty if all were
}

// Read is what copies read from a tier.
type Read struct {
	Bytes int64
	Took  time.Duration
}

// Counts are totals since the machine was created. They count blocks unless stated otherwise.
type Counts struct {
	Restored    uint64 // from tiers
	Recomputed  uint64 // found but not restored
	Restores    uint64 // number of sequences
	Avoided     uint64 // number of sequences whose blocks were found but not restored
	Fetched     uint64
	FetchFailed uint64
	Overlapped  uint64 // number of sequences
	Aborted     uint64 // number of steps
}
