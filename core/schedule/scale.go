package schedule

import (
	"cmp"
	"fmt"
	"time"
)

// Scaling is how a deployment follows its load. A field that is not given has its default.
type Scaling struct {
	MinReplicas, MaxReplicas int           // replicas; each at least 1
	UpAt                     float64       // use of what serves, from which on one more is wanted; default 0.85
	QueueAt                  float64       // waiting sequences per place, from which on one more is wanted; default 0.125
	DownAt                   float64       // use of what would be left, up to which one less will do; below UpAt; default 0.6
	UpAfter                  time.Duration // that it must have been too much; default 5 s
	DownAfter                time.Duration // that it must have been little; default 60 s
	CoolDown                 time.Duration // between the end of a change and the next; default 30 s
}

// Load is a deployment as observed, summed over the replicas that serve.
type Load struct {
	Want      int  // replicas, as decided last
	Serving   int  // of them
	Changing  bool // a change is being carried out
	Running   int  // sequences
	Waiting   int
	Places    int // sequences that may run at once
	KVBlocks  int
	KVFree    int     // blocks, empty or evictable
	TokenRate float64 // tokens computed per second, of prompts and outputs
}

// Scaler decides how many replicas a deployment is to have, one more or one less at a time. It remembers how long
// the load has been what it is. It is a value for one owner.
//
// A constant load settles: one less is wanted only if what would be left is used less than DownAt, and one more only if what
// serves is used more than UpAt, which is higher. Where sequences queue though there are places, the device is the limit;
// the rate at which it computed then is what a replica can do, and no more than DownAt of it is asked of fewer. This is
// learnt by going too low once.
type Scaler struct {
	Scaling
	lastChange      time.Time // when a change was last decided or seen to be under way
	overSince       time.Time // since when the load is too much; zero: it is not
	underSince      time.Time // since when one less would do; zero: it would not
	replicaCapacity float64   // tokens per second that a replica computed while sequences queued; 0: they never did
}

// NewScaler fills in the defaults.
func NewScaler(s Scaling) *Scaler {
	s.MinReplicas = max(1, s.MinReplicas)
	s.MaxReplicas = max(s.MinReplicas, s.MaxReplicas)
	s.UpAt, s.QueueAt, s.DownAt = cmp.Or(s.UpAt, 0.85), cmp.Or(s.QueueAt, 0.125), cmp.Or(s.DownAt, 0.6)
	s.UpAfter, s.DownAfter = cmp.Or(s.UpAfter, 5*time.Second), cmp.Or(s.DownAfter, time.Minute)
	s.CoolDown = cmp.Or(s.CoolDown, 30*time.Second)
	return &Scaler{Scaling: s}
}

// Scale takes an observation and returns how many replicas there are to be: within MinReplicas and MaxReplicas, and one more or less than
// l.Want at the most where that is, too. A deployment with no replicas is stopped, and stays so: only an operator starts it.
func (s *Scaler) Scale(now time.Time, l Load) (want int, why string) {
	if l.Want == 0 {
		s.startCoolDown(now)
		return 0, "stopped"
	}
	if want = min(max(l.Want, s.MinReplicas), s.MaxReplicas); want != l.Want {
		return want, fmt.Sprintf("%d is not within %d and %d", l.Want, s.MinReplicas, s.MaxReplicas)
	}
	if l.Changing || l.Serving != l.Want || l.Serving == 0 {
		s.startCoolDown(now)
		return want, fmt.Sprintf("%d of %d serve; a change is being carried out", l.Serving, l.Want)
	}
	much, little, why := s.compare(l)
	trackSince(&s.overSince, now, much)
	trackSince(&s.underSince, now, little)
	if s.queueing(l) && now.Sub(s.overSince) >= s.UpAfter {
		s.replicaCapacity = max(s.replicaCapacity, l.TokenRate/float64(l.Serving))
	}
	switch {
	case much && want == s.MaxReplicas:
		return want, why + "; already the most"
	case little && want == s.MinReplicas:
		return want, why + "; already the least"
	case !s.lastChange.IsZero() && now.Sub(s.lastChange) < s.CoolDown:
		return want, fmt.Sprintf("%s; the last change ended %s ago", why, now.Sub(s.lastChange).Round(time.Second))
	case much && now.Sub(s.overSince) >= s.UpAfter:
		why = fmt.Sprintf("%s for %s", why, now.Sub(s.overSince).Round(time.Second))
		s.startCoolDown(now)
		return want + 1, why
	case little && now.Sub(s.underSince) >= s.DownAfter:
		why = fmt.Sprintf("%s for %s", why, now.Sub(s.underSince).Round(time.Second))
		s.startCoolDown(now)
		return want - 1, why
	}
	return want, why
}

// settle begins the cool-down again. A change that is refused is thus not decided again before it ends.
func (s *Scaler) startCoolDown(now time.Time) {
	s.lastChange, s.overSince, s.underSince = now, time.Time{}, time.Time{}
}

// judge compares the load with what serves, and with what would be left.
func (s *Scaler) compare(l Load) (much, little bool, why string) {
	n, left := float64(l.Serving), float64(l.Serving-1)
	use, of := l.use()
	if s.queueing(l) {
		return true, false, fmt.Sprintf("%d sequences wait for %d places", l.Waiting, l.Places)
	}
	why = fmt.Sprintf("%.0f%% of the %s in use", 100*use, of)
	switch {
	case use >= s.UpAt:
		return true, false, why
	case use*n > s.DownAt*left:
		return false, false, why
	case s.replicaCapacity > 0 && l.TokenRate > s.DownAt*s.replicaCapacity*left:
		return false, false, fmt.Sprintf(
			"%s, but %.0f tokens/s are too many for %d replicas", why, l.TokenRate, l.Serving-1,
		)
	}
	return false, true, why
}

func (s *Scaler) queueing(l Load) bool {
	return ratio(float64(l.Waiting), float64(l.Places)) >= s.QueueAt
}

// use is the larger share of what serves: of the places, or of the KV blocks.
func (l Load) use() (use float64, of string) {
	places := ratio(float64(l.Running+l.Waiting), float64(l.Places))
	if blocks := ratio(float64(l.KVBlocks-l.KVFree), float64(l.KVBlocks)); blocks > places {
		return blocks, "KV blocks"
	}
	return places, "places"
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// since keeps the time from which on something holds.
func trackSince(t *time.Time, now time.Time, holds bool) {
	switch {
	case !holds:
		*t = time.Time{}
	case t.IsZero():
		*t = now
	}
}
