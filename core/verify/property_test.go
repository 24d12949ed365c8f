package verify

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestLoadInvariants checks the invariants of loads in doc.go with random sources and tokens.
func TestLoadInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &loadWorld{load: NewLoad()}
		if rapid.Bool().Draw(t, "recorded") {
			w.recorded = &Record{Prompt: []uint32{1}, Tokens: []uint32{1, 2}}
		}
		t.Repeat(map[string]func(*rapid.T){
			"loaded": func(t *rapid.T) {
				was := w.load.State()
				w.sources = nil
				for i := range rapid.IntRange(1, 2).Draw(t, "sources") {
					name := rapid.SampledFrom([]string{"disk", "host cache", "node b"}).Draw(t, "source")
					w.sources = append(w.sources, Source{name, name != "disk" && i == 0})
				}
				w.follow(t, was, w.load.Loaded(w.sources...))
			},
			"computed": func(t *rapid.T) {
				was := w.load.State()
				w.tokens = []uint32{1, uint32(rapid.IntRange(2, 3).Draw(t, "token"))}
				w.follow(t, was, w.load.Computed(w.tokens, w.recorded, rapid.Bool().Draw(t, "more")))
			},
			"exhausted": func(t *rapid.T) { w.follow(t, w.load.State(), w.load.Exhausted()) },
		})
	})
}

// loadWorld is a load as its caller sees it. It checks the invariants.
type loadWorld struct {
	load     *Load
	recorded *Record
	sources  []Source // of the last load
	tokens   []uint32
	dropped  int  // rejections
	held     bool // weights are on the device, and not dropped
	ended    int
}

func (w *loadWorld) follow(t *rapid.T, was State, effects []Effect) {
	if len(effects) == 1 {
		if _, ignored := effects[0].(Ignored); ignored {
			if w.load.State() != was {
				t.Fatalf("ignored: %v became %v", was, w.load.State())
			}
			return
		}
	}
	accepted := slices.ContainsFunc(effects, func(e Effect) bool { return e == Effect(Accept{}) })
	for _, e := range effects {
		switch e := e.(type) {
		case Compute:
			if w.held {
				t.Fatalf("dropped: weights are loaded beside others")
			}
			w.held = true
		case Drop:
			w.dropped, w.held = w.dropped+1, false
		case Next:
			if w.held {
				t.Fatalf("dropped: the next source before the weights are dropped")
			}
		case Recorded:
			if w.recorded != nil {
				t.Fatalf("verified: tokens are recorded over others")
			}
		case Accept:
			if w.recorded != nil && !slices.Equal(w.tokens, w.recorded.Tokens) || !w.held {
				t.Fatalf("verified: %v are accepted", w.tokens)
			}
			w.ended++
		case Suspect:
			if !accepted || !e.Source.Doubtful || !w.load.Doubts(e.Source.Name) {
				t.Fatalf("fair: %s is suspected", e.Source.Name)
			}
		case Fail:
			if len(e.Rejections) != w.dropped || w.dropped == 0 {
				t.Fatalf("named: %d rejections of %d", len(e.Rejections), w.dropped)
			}
			w.ended++
		}
	}
	if over := w.load.State() == Accepted || w.load.State() == Failed; over != (w.ended == 1) || w.ended > 1 {
		t.Fatalf("ends: %v, ended %d times", w.load.State(), w.ended)
	}
}

// TestRecordsInvariants checks the invariants of records in doc.go with random events.
func TestRecordsInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, unreadable, stored := NewRecords(), make(map[string]bool), make(map[string][]uint32)
		key := func(t *rapid.T) string { return rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key") }
		record := func(t *rapid.T) Record {
			return Record{Prompt: []uint32{1}, Tokens: []uint32{uint32(rapid.IntRange(1, 3).Draw(t, "token"))}}
		}
		check := func(t *rapid.T, k string, before Record, known bool, was RecordState, effects []Effect) {
			now, still := r.Find(k)
			if known && still && !now.Same(before) && !slices.Equal(stored[k], now.Tokens) {
				t.Fatalf("first counts: %v became %v", before, now)
			}
			for _, e := range effects {
				switch e := e.(type) {
				case Replace:
					if !unreadable[e.Name] {
						t.Fatalf("replaced: %v was not unreadable", e.Name)
					}
				case Ignored:
					if now, _ := r.Find(k); !now.Same(before) || r.State(k) != was {
						t.Fatalf("ignored: %v changed", k)
					}
				}
			}
		}
		step := func(do func(*rapid.T, string) []Effect) func(*rapid.T) {
			return func(t *rapid.T) {
				k := key(t)
				before, known := r.Find(k)
				was := r.State(k)
				check(t, k, before, known, was, do(t, k))
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"recorded": step(func(t *rapid.T, k string) []Effect { return r.Recorded(k, record(t)) }),
			"stored": step(func(t *rapid.T, k string) []Effect {
				one := record(t)
				unreadable[k], stored[k] = false, one.Tokens
				return r.Stored(k, one)
			}),
			"unreadable": step(func(_ *rapid.T, k string) []Effect {
				unreadable[k] = true
				delete(stored, k)
				return r.Unreadable(k, "torn")
			}),
			"deleted": step(func(_ *rapid.T, k string) []Effect { delete(stored, k); return r.Deleted(k) }),
			"retry": func(t *rapid.T) {
				due := make(map[string]bool)
				for _, k := range []string{"a", "b"} {
					if r.State(k) == Local {
						due[k] = true
					}
				}
				for _, e := range r.Retry() {
					delete(due, e.(Store).Name)
				}
				if len(due) > 0 {
					t.Fatalf("not lost: %v are not stored again", due)
				}
			},
		})
	})
}

// TestPrompt checks that prompts are in the vocabulary and leave room, and do not end a sequence.
func TestPrompt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		vocab, context := rapid.IntRange(8, 300000).Draw(t, "vocab"), rapid.IntRange(2, 40).Draw(t, "context")
		eos := []uint32{uint32(vocab / 8), uint32(vocab/8 + 1)}
		prompt := Prompt(vocab, context, eos)
		for _, id := range prompt {
			if int(id) >= vocab || slices.Contains(eos, id) {
				t.Fatalf("%d of %d", id, vocab)
			}
		}
		if n := Outputs(len(prompt), context); len(prompt) == 0 || n == 0 || len(prompt)+n > context {
			t.Fatalf("%d and %d tokens in a context of %d", len(prompt), n, context)
		}
	})
}
