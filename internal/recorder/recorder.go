// Package recorder buffers what a node records for the recordings that operators have begun: requests from its
// gateway, and decisions from its router. The lines are read by "troupe record" through the control service.
//
// Without a recording, Active is the only cost: it reads one atomic value.
package recorder

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"troupe/recording"
)

const (
	// MaxRecordings is the number of recordings that a node takes part in at once.
	MaxRecordings = 4
	// MaxBytes is the size of the lines that wait for their reader, of each recording. Further lines are lost.
	MaxBytes = 8 << 20
	// BatchBytes is the size of the lines in one batch, apart from the last line of it.
	BatchBytes = 256 << 10
	// Idle is the time after which a recording that is not read ends.
	Idle = 10 * time.Second
)

// Errors of Begin and Read.
var (
	ErrUnknown  = errors.New("this node does not take part in the recording; begin it again")
	ErrTooMany  = fmt.Errorf("this node takes part in %d recordings, the maximum; end one of them", MaxRecordings)
	ErrNoSecret = errors.New("the cluster secret is not known yet, without which prompts cannot be hashed; try again")
)

// Recorder is safe for concurrent use. A nil Recorder records nothing.
type Recorder struct {
	node   string
	now    func() time.Time
	secret func() []byte // the cluster secret; nil: not known
	active atomic.Int32  // recordings

	mu         sync.Mutex
	recordings []*session
}

// session is the part of a node in a recording.
type session struct {
	id     string
	began  time.Time // when the recording began, by the clock of this node
	salt   []byte
	readAt time.Time
	lines  [][]byte
	bytes  int
	last   uint64 // number of the last line
	lost   uint64
}

// New returns the recorder of a node.
func New(node string, now func() time.Time, secret func() []byte) *Recorder {
	return &Recorder{node: node, now: now, secret: secret}
}

// Active reports whether there is a recording.
func (r *Recorder) Active() bool { return r != nil && r.active.Load() > 0 }

// Begin begins a recording, or does nothing if it has begun. elapsed is the time since it began at its reader.
func (r *Recorder) Begin(id string, elapsed time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	r.endIdle(now)
	if r.find(id) != nil {
		return nil
	}
	secret := r.secret()
	switch {
	case len(secret) == 0:
		return ErrNoSecret
	case len(r.recordings) >= MaxRecordings:
		return ErrTooMany
	}
	salt := hmac.New(sha256.New, secret)
	salt.Write([]byte("recording\x00" + id))
	r.recordings = append(r.recordings, &session{id: id, began: now.Add(-elapsed), salt: salt.Sum(nil), readAt: now})
	r.active.Store(int32(len(r.recordings)))
	return nil
}

// Batch are lines of a recording.
type Batch struct {
	Lines []string
	Last  uint64 // number of the last line in Lines, or before them
	Lost  uint64 // lines that were lost so far
	More  bool   // there are more lines already
}

// Read returns the lines after a number, which the reader has not read yet, and drops those up to it. The first line
// has number 1.
func (r *Recorder) Read(id string, after uint64) (Batch, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	r.endIdle(now)
	s := r.find(id)
	if s == nil {
		return Batch{}, ErrUnknown
	}
	s.readAt = now
	s.drop(after)
	b := Batch{Last: s.last - uint64(len(s.lines)), Lost: s.lost}
	size := 0
	for _, line := range s.lines {
		if size >= BatchBytes {
			b.More = true
			break
		}
		b.Lines = append(b.Lines, string(line))
		b.Last++
		size += len(line)
	}
	return b, nil
}

// drop drops the lines up to a number.
func (s *session) drop(upTo uint64) {
	for len(s.lines) > 0 && s.last-uint64(len(s.lines)) < upTo {
		s.bytes -= len(s.lines[0])
		s.lines[0] = nil
		s.lines = s.lines[1:]
	}
}

// End ends a recording.
func (r *Recorder) End(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endIf(func(s *session) bool { return s.id == id })
}

// endIdle ends the recordings that are no longer read.
func (r *Recorder) endIdle(now time.Time) {
	r.endIf(func(s *session) bool { return now.Sub(s.readAt) > Idle })
}

func (r *Recorder) endIf(ends func(*session) bool) {
	r.recordings = slices.DeleteFunc(r.recordings, ends)
	r.active.Store(int32(len(r.recordings)))
}

func (r *Recorder) find(id string) *session {
	for _, s := range r.recordings {
		if s.id == id {
			return s
		}
	}
	return nil
}

// Request records a sequence that has ended, unless it arrived before the recording began. fingerprints are those of
// its blocks, and client is its client. Neither is recorded as it is.
func (r *Recorder) Request(arrived time.Time, q recording.Request, client string, fingerprints []uint64) {
	r.each(arrived, func(s *session) recording.Line {
		of := q
		of.At, of.Node, of.Blocks = recording.Seconds(arrived.Sub(s.began)), r.node, s.hashes(fingerprints)
		if client != "" {
			of.Client = fmt.Sprintf("%016x", s.hash('c', []byte(client)))
		}
		return recording.Line{Request: &of}
	})
}

// Decision records a decision.
func (r *Recorder) Decision(at time.Time, d recording.Decision) {
	r.each(at, func(s *session) recording.Line {
		of := d
		of.At, of.Node = recording.Seconds(at.Sub(s.began)), r.node
		return recording.Line{Decision: &of}
	})
}

// each adds a line to each recording that had begun at a time.
func (r *Recorder) each(at time.Time, line func(*session) recording.Line) {
	if !r.Active() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endIdle(r.now())
	for _, s := range r.recordings {
		if at.Before(s.began) {
			continue
		}
		text, err := json.Marshal(line(s))
		if err != nil || s.bytes+len(text) > MaxBytes {
			s.lost++
			continue
		}
		s.lines = append(s.lines, text)
		s.bytes += len(text)
		s.last++
	}
}

// hashes returns the salted hashes of blocks.
func (s *session) hashes(fingerprints []uint64) recording.Hashes {
	all := make(recording.Hashes, len(fingerprints))
	for i, f := range fingerprints {
		all[i] = s.hash('b', binary.BigEndian.AppendUint64(nil, f))
	}
	return all
}

// hash returns a hash that only nodes of the cluster can compute: the beginning of a digest of the salt, the kind and
// the value.
func (s *session) hash(kind byte, of []byte) uint64 {
	sum := sha256.Sum256(append(append(slices.Clip(s.salt), kind), of...))
	return binary.BigEndian.Uint64(sum[:])
}
