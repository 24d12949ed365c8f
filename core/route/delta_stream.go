package route

// Feed follows what one sender announces in increments that are numbered one by one, with snapshots in between. A snapshot
// numbered n replaces everything up to increment n. Messages may be lost, repeated and reordered; a new life of the
// sender has a higher incarnation and begins with a snapshot. The zero value knows nothing.
//
// Invariant: what was applied is the sender's state as of the last message that was.
type Feed struct {
	incarnation uint64
	sequence    uint64 // of the last message applied
	known       bool   // a snapshot of this incarnation was applied
}

// Verdict is what to do with a message.
type Verdict uint8

const (
	FeedApply  Verdict = iota // it is the next, or a newer snapshot
	FeedIgnore                // it tells nothing new
	FeedAsk                   // something before it is missing: drop it and ask for a snapshot
)

// Apply judges a message. With FeedApply it is taken as applied. FeedAsk is said of every message until the gap is
// closed; how often to ask is the caller's business.
func (f *Feed) Apply(incarnation, sequence uint64, snapshot bool) Verdict {
	switch {
	case incarnation < f.incarnation:
		return FeedIgnore
	case incarnation > f.incarnation:
		*f = Feed{incarnation: incarnation}
	}
	switch {
	case f.known && sequence <= f.sequence:
		return FeedIgnore
	case snapshot, f.known && sequence == f.sequence+1:
		f.sequence, f.known = sequence, true
		return FeedApply
	}
	return FeedAsk
}

// Known reports whether a snapshot of the newest incarnation was applied.
func (f *Feed) Known() bool { return f.known }

// Incarnation is the newest that was heard of.
func (f *Feed) Incarnation() uint64 { return f.incarnation }
