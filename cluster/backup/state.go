package backup

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Key is the last known value of a key.
type Key struct {
	Value    []byte `json:"value,omitempty"`
	Revision uint64 `json:"revision"`
	Deleted  bool   `json:"deleted,omitempty"`
}

// NewerThan reports whether k is newer than other. A deletion at the revision of a value was only inferred.
func (k Key) NewerThan(other Key) bool {
	return k.Revision > other.Revision || k.Revision == other.Revision && other.Deleted && !k.Deleted
}

// State is the desired state as a node knew it.
type State struct {
	Created  time.Time      `json:"created"`  // of the bucket
	Revision uint64         `json:"revision"` // the highest known of the bucket
	Keys     map[string]Key `json:"keys"`
	// Term is the highest known one. TermLimit is above all that members were given.
	Term      uint64 `json:"term"`
	TermLimit uint64 `json:"term_limit"`
	// Stopped says that the node stopped after it had saved this: Term is the last one that it gave.
	Stopped bool   `json:"stopped,omitempty"`
	Saved   uint64 `json:"saved"` // grows with each save
}

// TermGap is the number of terms that a saved limit is above the highest known one.
const TermGap = 1 << 20

// RecordTerm notes the highest known term, and raises the limit where it is near. It reports whether
// it was raised: the state must be saved then.
func (s *State) RecordTerm(term uint64) bool {
	s.Term = max(s.Term, term)
	if term == 0 || s.Term+TermGap/2 < s.TermLimit {
		return false
	}
	s.TermLimit = s.Term + TermGap
	return true
}

// Losses returns what a bucket with these keys and this last revision has lost of the state, in order.
// A bucket that is newer than the state has lost nothing by that.
func (s *State) Losses(have map[string]Key, last uint64) (lost []string) {
	if last < s.Revision {
		lost = append(lost, fmt.Sprintf("revision %d is its last, and was %d", last, s.Revision))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Keys)) {
		want, got, there := s.Keys[name], Key{}, false
		if got, there = have[name]; got.Revision > want.Revision {
			continue
		}
		switch {
		case want.Deleted:
			if there && !got.Deleted && got.Revision < want.Revision {
				lost = append(lost, "the deletion of key "+name)
			}
		case !there:
			lost = append(lost, "key "+name)
		case got.Revision < want.Revision:
			lost = append(lost, fmt.Sprintf("revision %d of key %s", want.Revision, name))
		case got.Deleted || !bytes.Equal(got.Value, want.Value):
			lost = append(lost, fmt.Sprintf("the value of key %s at revision %d", name, want.Revision))
		}
	}
	return lost
}

// Merge takes in what a bucket has that is newer.
func (s *State) Merge(have map[string]Key, last uint64) {
	if s.Keys == nil {
		s.Keys = map[string]Key{}
	}
	s.Revision = max(s.Revision, last)
	for name, key := range have {
		if s.Revision = max(s.Revision, key.Revision); key.NewerThan(s.Keys[name]) {
			s.Keys[name] = key
		}
	}
}
