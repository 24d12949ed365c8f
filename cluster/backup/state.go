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
	// Stored is when the server stored the revision, by its clock. Zero: unknown, as in a copy.
	Stored time.Time `json:"-"`
}

// NewerThan reports whether k is newer than other. An inferred deletion has the revision of the value that it
// deletes; the value counts as newer.
func (k Key) NewerThan(other Key) bool {
	return k.Revision > other.Revision || k.Revision == other.Revision && other.Deleted && !k.Deleted
}

// State is the desired state as a node knew it.
type State struct {
	Created  time.Time      `json:"created"`  // creation time of the bucket
	Revision uint64         `json:"revision"` // highest known revision of the bucket
	Keys     map[string]Key `json:"keys"`
	// Term is the highest known term. TermLimit is above all terms that were given to members.
	Term      uint64 `json:"term"`
	TermLimit uint64 `json:"term_limit"`
	// Stopped means that the node saved this state when it stopped, so Term is the last term that
	// it gave.
	Stopped bool   `json:"stopped,omitempty"`
	Saved   uint64 `json:"saved"` // number of saves
}

// TermGap is the distance of a new TermLimit from the highest known term.
const TermGap = 1 << 20

// RecordTerm records the highest known term and raises TermLimit if the term is close to it. It
// reports whether it raised TermLimit; the state must then be saved.
func (s *State) RecordTerm(term uint64) bool {
	s.Term = max(s.Term, term)
	if term == 0 || s.Term+TermGap/2 < s.TermLimit {
		return false
	}
	s.TermLimit = s.Term + TermGap
	return true
}

// Losses describes the parts of the state that are missing from a bucket with the given keys and
// last revision, ordered by key. Later revisions in the bucket are not losses.
func (s *State) Losses(have map[string]Key, last uint64) (lost []string) {
	if last < s.Revision {
		lost = append(lost, fmt.Sprintf("revisions %d to %d", last+1, s.Revision))
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

// Merge takes over the entries of a bucket that are newer than those of s.
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
