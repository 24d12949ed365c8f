package members

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

const (
	renewEvery = 300 * time.Millisecond
	silentFor  = 1200 * time.Millisecond
	grace      = 2400 * time.Millisecond
)

func newNATSHealth() natsHealth {
	return natsHealth{RenewEvery: renewEvery, SilentFor: silentFor, Grace: grace}
}

// TestCanSuspect runs through the life of a node. Times are in milliseconds.
func TestCanSuspect(t *testing.T) {
	c := newNATSHealth()
	at := func(ms int) time.Time { return epoch.Add(time.Duration(ms) * time.Millisecond) }
	renew := func(from, to int) {
		for ms := from; ms <= to; ms += 300 {
			c.tick(at(ms))
			c.renewSucceeded(at(ms), at(ms+1))
		}
	}
	want := func(what string, ms int, may bool) {
		t.Helper()
		if got := c.canSuspect(at(ms)); got != may {
			t.Errorf("%s, at %d ms: %v", what, ms, got)
		}
	}
	want("before it joined", 0, false)
	c.disconnected(at(0))
	renew(0, 2100)
	want("joined, within its grace", 2399, false)
	renew(2400, 2400)
	want("joined, after its grace", 2401, true)
	c.renewFailed(at(2700))
	want("a renewal failed", 2700, false)
	if !c.renewDue(at(2710)) {
		t.Error("a failed renewal is not retried at once")
	}
	renew(3000, 3900)
	want("renewed, but not stable yet", 3900, false)
	want("stable", 3901, true)
	if c.renewDue(at(4100)) || !c.renewDue(at(4200)) {
		t.Error("the next renewal is not due after 300 ms")
	}
	renew(4200, 4200)
	want("no renewal for SilentFor", 5500, false)
	if !c.tick(at(5500)) {
		t.Error("a stall was not detected")
	}
	renew(5500, 7600)
	want("stalled, within its grace", 7899, false)
	renew(7900, 7900)
	want("stalled, after its grace", 7901, true)
	c.disconnected(at(8000))
	renew(8200, 10100)
	want("connected again, within its grace", 10399, false)
	renew(10400, 10400)
	want("connected again, after its grace", 10401, true)
}

func TestLeaseValid(t *testing.T) {
	c := newNATSHealth()
	if c.leaseValid(epoch) {
		t.Error("valid without a renewal")
	}
	c.renewSucceeded(epoch, epoch.Add(time.Second)) // a late reply: others may have seen the renewal at once
	if !c.leaseValid(epoch.Add(silentFor-1)) || c.leaseValid(epoch.Add(silentFor)) {
		t.Error("the lease is not valid for exactly SilentFor from the start of the renewal")
	}
}

// simulation is a NATS server and some members, in steps of 50 ms.
type simulation struct {
	now      time.Time
	down     bool
	revision uint64
	members  []*modelMember
}

// modelMember makes the same decisions as Members from the same values.
type modelMember struct {
	name   string
	health natsHealth
	view   view
	online bool
	back   time.Time // time of its reconnection, once the server is up
	asleep time.Time // end of its stall
	killed bool
	next   time.Time // next tick
}

const step = 50 * time.Millisecond

// write shows a renewal to every connected member.
func (w *simulation) write(m *modelMember) {
	w.revision++
	for _, other := range w.members {
		if other.online {
			other.view.apply(memberEntry(m.name, 1, w.revision, w.now))
		}
	}
}

// advance simulates one step and returns the members that others would delete.
func (w *simulation) advance() (deleted []string) {
	w.now = w.now.Add(step)
	for _, m := range w.members {
		switch {
		case m.killed || w.now.Before(m.asleep):
			continue
		case w.down && m.online:
			m.online = false
		case !w.down && !m.online && !w.now.Before(m.back):
			m.online, m.next = true, w.now
			m.health.disconnected(w.now)
		}
		if w.now.Before(m.next) {
			continue
		}
		m.next = w.now.Add(renewEvery)
		m.health.tick(w.now)
		if !m.online {
			m.health.renewFailed(w.now)
			continue
		}
		m.health.renewSucceeded(w.now, w.now)
		w.write(m)
		if m.health.canSuspect(w.now) {
			for _, e := range m.view.silent(m.name+".1", w.now, silentFor) {
				deleted = append(deleted, e.member.GetName())
			}
		}
	}
	return deleted
}

// TestOutagesKeepMembers stops the server repeatedly, for random times. Members reconnect within
// the grace, each in its own time, and some stall for a while. No member that renews is deleted.
// Finally a member is killed and deleted.
func TestOutagesKeepMembers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &simulation{now: epoch}
		for _, name := range []string{"a", "b", "c"} {
			m := &modelMember{name: name, health: newNATSHealth(), view: view{}, online: true, next: epoch}
			m.health.disconnected(epoch)
			w.members = append(w.members, m)
		}
		duration := func(what string, most time.Duration) time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(most/step)).Draw(t, what)) * step
		}
		run := func(d time.Duration, may func(name string) bool) (found bool) {
			for end := w.now.Add(d); w.now.Before(end); {
				for _, name := range w.advance() {
					if !may(name) {
						t.Fatalf("%s was deleted after %s", name, w.now.Sub(epoch))
					}
					found = true
				}
			}
			return found
		}
		none := func(string) bool { return false }
		for range rapid.IntRange(0, 4).Draw(t, "outages") {
			run(duration("up", 8*time.Second), none)
			if sleeper := rapid.SampledFrom(w.members).Draw(t, "sleeper"); rapid.Bool().Draw(t, "sleeps") {
				// Others may delete a stalled member. The test is about what it does when it resumes.
				sleeper.asleep = w.now.Add(duration("sleep", 5*time.Second))
				run(sleeper.asleep.Sub(w.now), func(name string) bool { return name == sleeper.name })
				w.write(sleeper) // it resumes, fenced or not
				run(step, none)
			}
			w.down = true
			// An outage of at least one step, which all members notice. A shorter one starts no grace.
			run(step+duration("down", 8*time.Second), none)
			w.down = false
			for _, m := range w.members {
				m.back = w.now.Add(duration("connects within", grace-renewEvery-step))
			}
		}
		run(2*grace, none)
		w.members[2].killed = true
		if !run(silentFor+2*renewEvery, func(name string) bool { return name == "c" }) {
			t.Fatal("the dead member was not deleted")
		}
	})
}
