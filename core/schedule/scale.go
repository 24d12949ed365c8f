package schedule

import (
	"cmp"
	"fmt"
	"time"
)

// Scaling configures how a deployment follows its load. A zero field has its default.
type Scaling struct {
	MinReplicas, MaxReplicas int     // number of replicas; each at least 1
	UpAt                     float64 // utilization of the serving replicas at which one is added; default 0.85
	QueueAt                  float64 // waiting sequences per place at which a replica is added; default 0.125
	// DownAt is the highest utilization of the remaining replicas at which one is removed. It is
	// less than UpAt; default 0.6.
	DownAt    float64
	UpAfter   time.Duration // how long the load must be too high; default 5 s
	DownAfter time.Duration // how long the load must be low; default 60 s
	CoolDown  time.Duration // between the end of a change and the next change; default 30 s
	// IdleAfter is the time without a request after which a deployment goes to sleep, with 0 replicas;
	// 0: never.
	IdleAfter time.Duration
}

// Load is the observed load of a deployment, summed over the serving replicas.
type Load struct {
	Want      int  // replicas, as decided last
	Serving   int  // replicas that serve
	Changing  bool // a change is in progress
	Running   int  // sequences
	Waiting   int
	Places    int // sequences that may run at once
	KVBlocks  int
	KVFree    int     // blocks that are empty or evictable
	TokenRate float64 // tokens computed per second, of prompts and outputs; negative: not known
}

// Scaler decides how many replicas a deployment has, in steps of one. It remembers how long the
// load has been high or low. It is not safe for concurrent use.
//
// With a constant load the number becomes constant: one fewer is wanted only if the remaining
// replicas would be used less than DownAt, and one more only if the serving ones are used more than
// UpAt, which is higher. If sequences queue although there are places, the device is the limit. The
// token rate at that time is then the capacity of a replica, and scaling down never plans with more
// than DownAt of it. The Scaler learns this by once going too low.
type Scaler struct {
	Scaling
	lastChange      time.Time // when a change was last decided or seen in progress
	overSince       time.Time // since when the load is too high; zero: it is not
	underSince      time.Time // since when one fewer replica is enough; zero: it is not
	idleSince       time.Time // since when there was no request; zero: there is one, or it is not known
	replicaCapacity float64   // tokens per second that a replica computed while sequences queued; 0: never queued
}

// NewScaler returns a Scaler with defaults for the zero fields of s.
func NewScaler(s Scaling) *Scaler {
	s.MinReplicas = max(1, s.MinReplicas)
	s.MaxReplicas = max(s.MinReplicas, s.MaxReplicas)
	s.UpAt, s.QueueAt, s.DownAt = cmp.Or(s.UpAt, 0.85), cmp.Or(s.QueueAt, 0.125), cmp.Or(s.DownAt, 0.6)
	s.UpAfter, s.DownAfter = cmp.Or(s.UpAfter, 5*time.Second), cmp.Or(s.DownAfter, time.Minute)
	s.CoolDown = cmp.Or(s.CoolDown, 30*time.Second)
	return &Scaler{Scaling: s}
}

// Scale takes an observation and returns the wanted number of replicas, between MinReplicas and
// MaxReplicas. If l.Want is in that range, the result differs from it by at most one. A deployment
// without a request for IdleAfter is wanted with 0 replicas instead. One with no
// replicas stays so: a request wakes it, or an operator starts it.
func (s *Scaler) Scale(now time.Time, l Load) (want int, why string) {
	if l.Want == 0 {
		s.startCoolDown(now)
		return 0, "asleep or stopped"
	}
	if want = min(max(l.Want, s.MinReplicas), s.MaxReplicas); want != l.Want {
		return want, fmt.Sprintf("%d is not between %d and %d", l.Want, s.MinReplicas, s.MaxReplicas)
	}
	if l.Changing || l.Serving != l.Want || l.Serving == 0 {
		s.startCoolDown(now)
		return want, fmt.Sprintf("%d of %d serve; a change is in progress", l.Serving, l.Want)
	}
	trackSince(&s.idleSince, now, l.Running+l.Waiting == 0 && l.TokenRate == 0)
	if idle := now.Sub(s.idleSince); s.IdleAfter > 0 && !s.idleSince.IsZero() && idle >= s.IdleAfter {
		s.startCoolDown(now)
		return 0, fmt.Sprintf("no request for %s", idle.Round(time.Second))
	}
	much, little, why := s.compare(l)
	trackSince(&s.overSince, now, much)
	trackSince(&s.underSince, now, little)
	if s.queueing(l) && now.Sub(s.overSince) >= s.UpAfter {
		s.replicaCapacity = max(s.replicaCapacity, l.TokenRate/float64(l.Serving))
	}
	switch {
	case much && want == s.MaxReplicas:
		return want, why + "; already the maximum"
	case little && want == s.MinReplicas:
		return want, why + "; already the minimum"
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

// startCoolDown restarts the cool-down. A change that was refused is therefore not decided again
// before the cool-down ends.
func (s *Scaler) startCoolDown(now time.Time) {
	s.lastChange, s.overSince, s.underSince, s.idleSince = now, time.Time{}, time.Time{}, time.Time{}
}

// compare compares the load with the serving replicas, and with one replica fewer.
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

// use returns the share of the serving replicas' places or KV blocks in use, whichever is larger.
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

// trackSince sets t to the time since which a condition holds, or to zero if it does not.
func trackSince(t *time.Time, now time.Time, holds bool) {
	switch {
	case !holds:
		*t = time.Time{}
	case t.IsZero():
		*t = now
	}
}
