package dst

import "time"

// fnv is the FNV-1a hash of bytes, which hash/fnv computes too, but not without a copy of a string.
type fnv uint64

const fnvOffset, fnvPrime fnv = 0xcbf29ce484222325, 0x100000001b3

func (h *fnv) add(b byte) { *h = (*h ^ fnv(b)) * fnvPrime }

// trace computes a hash of all tasks, in order.
type trace struct {
	hash  fnv
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
	for shift := 0; shift < 64; shift += 8 {
		t.hash.add(byte(at >> shift))
	}
	for i := range len(name) {
		t.hash.add(name[i])
	}
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
