package route

// DeltaStream follows what one sender announces in increments that are numbered one by one, with snapshots in between. A snapshot
// numbered n replaces everything up to increment n. Messages may be lost, repeated and reordered; a new life of the
// sender has a higher incarnation and begins with a snapshot. The zero value knows nothing.
//
// Invariant: what was applied is the sender's state as of the last message that was.
type DeltaStream struct {
	incarnation uint64
	sequence    uint64 // of the last message applied
	synced      bool   // a snapshot of this incarnation was applied
}

// DeltaVerdict is what to do with a message.
type DeltaVerdict uint8

const (
	DeltaApply  DeltaVerdict = iota // it is the next, or a newer snapshot
	DeltaIgnore                     // it tells nothing new
	DeltaResync                     // something before it is missing: drop it and ask for a snapshot
)

// Apply judges a message. With DeltaApply it is taken as applied. DeltaResync is said of every message until the gap is
// closed; how often to ask is the caller's business.
func (f *DeltaStream) Apply(incarnation, sequence uint64, snapshot bool) DeltaVerdict {
	switch {
	case incarnation < f.incarnation:
		return DeltaIgnore
	case incarnation > f.incarnation:
		*f = DeltaStream{incarnation: incarnation}
	}
	switch {
	case f.synced && sequence <= f.sequence:
		return DeltaIgnore
	case snapshot, f.synced && sequence == f.sequence+1:
		f.sequence, f.synced = sequence, true
		return DeltaApply
	}
	return DeltaResync
}

// Synced reports whether a snapshot of the newest incarnation was applied.
func (f *DeltaStream) Synced() bool { return f.synced }

// Incarnation is the newest that was heard of.
func (f *DeltaStream) Incarnation() uint64 { return f.incarnation }
