package restore

import (
	"time"

	"troupe/core/kv"
)

// Effect is an action for the caller to carry out. Effects are carried out in order. An entry, its
// lookup, its copies and its gate all have the same number.
type Effect interface{ isEffect() }

// Hold excludes a waiting sequence from admission.
type Hold struct{ ID string }

// Resume makes a held sequence admissible again. It does nothing if the sequence no longer exists.
type Resume struct{ ID string }

// LookUp locks the leading blocks of Hashes in the tiers. With Remote it also finds remote holders
// of the blocks that follow. The caller reports LookedUp.
type LookUp struct {
	Number uint64
	Hashes []kv.Hash // blocks that are not in HBM
	Remote bool
	Within time.Duration // time limit for the answer of each tier
}

// Unlock ends a lookup without copies. It does nothing if the copier has restarted since.
type Unlock struct{ Number uint64 }

// Reserve references the blocks in HBM with the hashes Have, which protects them from eviction, and
// allocates up to Blocks blocks, as many as are free. If a block of Have is gone, it allocates
// none. The caller reports Reserved.
type Reserve struct {
	Number uint64
	Have   []kv.Hash
	Blocks int
}

// Copy copies the leading blocks of a lookup to Blocks and then ends the lookup. With Gate, the
// caller reports Arrived for each of the Parts, and steps can wait for them. The caller reports
// Copied.
type Copy struct {
	Number uint64
	ID     string // of the sequence; empty: the copies are for a command
	Blocks []int32
	Within time.Duration
	Parts  int
	Gate   bool
	Why    string
}

// CanStart reports that a sequence does not have to wait for its remaining blocks.
type CanStart struct{ ID, Why string }

// StartSequence starts a held sequence on a block table whose first Resident blocks are filled, if
// the batch has room for it. If so, the caller reports Started.
type StartSequence struct {
	Number   uint64
	ID       string
	Table    []int32
	Resident int
}

// FinishStart records that all blocks of a started sequence are filled.
type FinishStart struct{ ID string }

// UndoStart requeues a started sequence, held as before.
type UndoStart struct{ ID string }

// CloseGate removes the gate of copies.
type CloseGate struct{ Number uint64 }

// Incomplete reports that not all blocks were copied.
type Incomplete struct{ ID, Why string }

// Commit offers copied blocks for sharing.
type Commit struct {
	Blocks []int32
	Hashes []kv.Hash
}

// MarkBacked records that a tier also has these blocks.
type MarkBacked struct {
	Blocks []int32
	Hashes []kv.Hash
}

// Release drops the references taken by Reserve.
type Release struct{ Blocks []int32 }

// Answer answers a command with the number of restored blocks.
type Answer struct {
	Command uint64
	Blocks  int
	Why     string // why no block was restored; empty if some were
}

// Report asks the caller to publish the replica's status soon.
type Report struct{}

// Ignored reports an event that changed nothing.
type Ignored struct {
	State State
	Event Event
	Why   string
}

func (Hold) isEffect()          {}
func (Resume) isEffect()        {}
func (LookUp) isEffect()        {}
func (Unlock) isEffect()        {}
func (Reserve) isEffect()       {}
func (Copy) isEffect()          {}
func (CanStart) isEffect()      {}
func (StartSequence) isEffect() {}
func (FinishStart) isEffect()   {}
func (UndoStart) isEffect()     {}
func (CloseGate) isEffect()     {}
func (Incomplete) isEffect()    {}
func (Commit) isEffect()        {}
func (MarkBacked) isEffect()    {}
func (Release) isEffect()       {}
func (Answer) isEffect()        {}
func (Report) isEffect()        {}
func (Ignored) isEffect()       {}
