package route

// DeltaStream tracks the numbered increments and snapshots of one sender. A snapshot with number n
// replaces everything up to increment n. Messages may be lost, repeated and reordered. A restarted
// sender has a higher incarnation and begins with a snapshot. The zero value is ready to use and
// not synced.
//
// Invariant: the applied messages add up to the sender's state as of the last applied message.
type DeltaStream struct {
	incarnation uint64
	sequence    uint64 // of the last applied message
	synced      bool   // a snapshot of this incarnation was applied
}

// DeltaVerdict is what to do with a message.
type DeltaVerdict uint8

const (
	DeltaApply  DeltaVerdict = iota // the next increment, or a newer snapshot
	DeltaIgnore                     // nothing new
	DeltaResync                     // an earlier message is missing: drop this one and request a snapshot
)

// Apply returns the verdict for a message. After DeltaApply the message counts as applied.
// DeltaResync is returned for every message until a snapshot or the missing increment arrives; the
// caller decides how often to request a snapshot.
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
