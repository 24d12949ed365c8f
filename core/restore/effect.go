package restore

import (
	"time"

	"troupe/core/kv"
)

// Effect is an action for the caller to carry out. Effects are carried out in order. The number of
// an entry is also that of its lookup, its copies and its gate.
type Effect interface{ isEffect() }

// Hold keeps a waiting sequence from being admitted.
type Hold struct{ ID string }

// Resume lets a held sequence be admitted. It does nothing to one that does not exist.
type Resume struct{ ID string }

// LookUp locks the leading blocks of Hashes in the tiers, and with Remote also finds remote holders
// of the blocks after them. The caller reports LookedUp.
type LookUp struct {
	Number uint64
	Hashes []kv.Hash // the blocks that HBM lacks
	Remote bool
	Within time.Duration // limit of each tier's answer
}

// Unlock ends a lookup without copies. It does nothing if the copier restarted meanwhile.
type Unlock struct{ Number uint64 }

// Reserve references the blocks in HBM with the hashes Have, so that they are not evicted, and
// allocates Blocks blocks, or as many as are free. It allocates none if a block of Have is gone. The
// caller reports Reserved.
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
	ID     string // of the sequence; empty: for a command
	Blocks []int32
	Within time.Duration
	Parts  int
	Gate   bool
	Why    string
}

// CanStart reports that a sequence need not wait for the rest of its blocks.
type CanStart struct{ ID, Why string }

// StartSequence starts a held sequence on a table whose first Resident blocks are filled, if there
// is a place for it. The caller reports Started if it did.
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

// Incomplete reports that copies did not bring all blocks.
type Incomplete struct{ ID, Why string }

// Commit offers copied blocks for sharing.
type Commit struct {
	Blocks []int32
	Hashes []kv.Hash
}

// MarkBacked records that a tier has blocks too.
type MarkBacked struct {
	Blocks []int32
	Hashes []kv.Hash
}

// Release drops the references of Reserve.
type Release struct{ Blocks []int32 }

// Answer answers a command with the number of restored blocks.
type Answer struct {
	Command uint64
	Blocks  int
	Why     string // why no block was restored; empty otherwise
}

// Report publishes the replica's status soon.
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
