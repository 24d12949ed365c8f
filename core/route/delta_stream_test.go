package route

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// announcement is a message of a sender: a number to append to a list, or the whole list.
type announcement struct {
	incarnation, sequence uint64
	snapshot              bool
	items                 []int
}

// TestDeltaStream sends announcements over a network that loses, repeats and reorders them.
// Appending to a list does not commute, so any wrong order shows.
func TestDeltaStream(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var feed DeltaStream
		var applied []int
		var network []announcement
		states := map[[2]uint64][]int{} // by incarnation and sequence: the sender's list at that time
		incarnation, sequence, items := uint64(1), uint64(0), []int(nil)
		say := func(snapshot bool, said []int) {
			states[[2]uint64{incarnation, sequence}] = slices.Clone(items)
			network = append(network, announcement{incarnation, sequence, snapshot, slices.Clone(said)})
		}
		at, asked := [2]uint64{}, false
		deliver := func(t *rapid.T, i int) {
			m := network[i]
			switch feed.Apply(m.incarnation, m.sequence, m.snapshot) {
			case DeltaApply:
				if m.snapshot {
					applied = nil
				}
				applied = append(slices.Clone(applied), m.items...)
				next := [2]uint64{m.incarnation, m.sequence}
				if slices.Compare(next[:], at[:]) <= 0 && at != [2]uint64{} {
					t.Fatalf("went back from %v to %v", at, next)
				}
				at, asked = next, false
				if !slices.Equal(applied, states[at]) {
					t.Fatalf("applied %v at %v, want %v", applied, at, states[at])
				}
			case DeltaResync:
				asked = true
			case DeltaIgnore:
				if message := [2]uint64{m.incarnation, m.sequence}; slices.Compare(message[:], at[:]) > 0 &&
					m.incarnation == feed.incarnation {
					t.Fatalf("%v is ignored at %v", message, at)
				}
			}
		}
		say(true, nil)
		t.Repeat(map[string]func(*rapid.T){
			"increment": func(t *rapid.T) {
				sequence++
				items = append(items, int(sequence))
				say(false, items[len(items)-1:])
			},
			"snapshot": func(t *rapid.T) { say(true, items) },
			"restart": func(t *rapid.T) {
				incarnation++
				sequence, items = 0, []int{-int(incarnation)}
				say(true, items)
			},
			"lose": func(t *rapid.T) {
				if n := len(network); n > 0 {
					i := rapid.IntRange(0, n-1).Draw(t, "lost")
					network = slices.Delete(network, i, i+1)
				}
			},
			"deliver": func(t *rapid.T) {
				if n := len(network); n > 0 { // the message stays in the network and may arrive again
					deliver(t, rapid.IntRange(0, n-1).Draw(t, "delivered"))
				}
			},
			"in order": func(t *rapid.T) {
				for i := range network {
					deliver(t, i)
				}
				network = nil
			},
			"catch up": func(t *rapid.T) { // one increment arrives, and so does the snapshot if one is requested
				sequence++
				items = append(items, int(sequence))
				say(false, items[len(items)-1:])
				asked = false
				deliver(t, len(network)-1)
				if asked {
					say(true, items)
					deliver(t, len(network)-1)
				}
				if !slices.Equal(applied, items) {
					t.Fatalf("applied %v in the end, want %v", applied, items)
				}
			},
		})
	})
}

func TestDeltaVerdicts(t *testing.T) {
	type message struct {
		incarnation, sequence uint64
		snapshot              bool
		want                  DeltaVerdict
	}
	for name, messages := range map[string][]message{
		"an increment before any snapshot": {
			{1, 1, false, DeltaResync}, {1, 1, true, DeltaApply}, {1, 2, false, DeltaApply},
		},
		"a gap closed by a snapshot": {
			{1, 0, true, DeltaApply}, {1, 2, false, DeltaResync}, {1, 2, true, DeltaApply}, {1, 3, false, DeltaApply},
		},
		"a gap closed by the missing increment": {
			{1, 0, true, DeltaApply}, {1, 2, false, DeltaResync}, {1, 1, false, DeltaApply}, {1, 2, false, DeltaApply},
		},
		"a repetition": {
			{1, 4, true, DeltaApply}, {1, 4, true, DeltaIgnore}, {1, 5, false, DeltaApply}, {1, 5, false, DeltaIgnore},
		},
		"an older snapshot": {{1, 4, true, DeltaApply}, {1, 3, true, DeltaIgnore}},
		"a new incarnation without its snapshot": {
			{1, 4, true, DeltaApply}, {2, 1, false, DeltaResync}, {1, 5, false, DeltaIgnore}, {2, 0, true, DeltaApply},
		},
		"a snapshot of an older incarnation": {
			{1, 4, true, DeltaApply}, {2, 0, true, DeltaApply}, {1, 9, true, DeltaIgnore},
		},
		"numbers restart with a new incarnation": {
			{1, 9, true, DeltaApply}, {2, 1, true, DeltaApply}, {2, 2, false, DeltaApply},
		},
		"a newer snapshot": {
			{1, 1, true, DeltaApply}, {1, 7, true, DeltaApply}, {1, 8, false, DeltaApply},
		},
	} {
		var f DeltaStream
		for i, m := range messages {
			if got := f.Apply(m.incarnation, m.sequence, m.snapshot); got != m.want {
				t.Errorf("%s: message %d: %d, want %d", name, i, got, m.want)
			}
		}
	}
}
