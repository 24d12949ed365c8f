package dst

import (
	"encoding/binary"
	"hash"
	"time"
)

// trace computes a hash of all tasks, in order.
type trace struct {
	hash  hash.Hash64
	began time.Time
	steps uint64
	last  [32]string                          // last tasks; a ring
	log   func(at time.Duration, name string) // called for each task; may be nil
}

func (t *trace) add(now time.Time, name string) {
	if t.began.IsZero() {
		t.began = now
	}
	at := now.Sub(t.began)
	t.last[t.steps%uint64(len(t.last))] = name
	t.steps++
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(at))
	_, _ = t.hash.Write(b[:]) // never fails
	_, _ = t.hash.Write([]byte(name))
	if t.log != nil {
		t.log(at, name)
	}
}

// Log calls write for each task from now on.
func (w *World) Log(write func(at time.Duration, task string)) { w.trace.log = write }

// recent returns the last tasks, oldest first.
func (t *trace) recent() (all []string) {
	for i := range uint64(len(t.last)) {
		if name := t.last[(t.steps+i)%uint64(len(t.last))]; name != "" {
			all = append(all, name)
		}
	}
	return all
}
