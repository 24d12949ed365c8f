package simulate

import (
	"time"

	core "troupe/core/replica"
)

// series counts what happens in buckets of equal length, and notes what each replica did when. All counts
// are whole numbers: their sums do not depend on the order in which they were added, nor on how many
// steps ran at once. The zero value collects nothing.
type series struct {
	width     time.Duration // of a bucket; 0: nothing is collected
	most      int           // buckets; with more, two become one
	columns   []*counts
	models    map[*model]*modelCounts
	busy      map[*device]map[*model]*counts // nanoseconds in which steps ran
	replicas  map[*replica]*replicaCounts
	order     []*replica // of replicas, as they were first seen
	intervals map[*device][]interval
}

// counts has a number for each bucket.
type counts []int64

// modelCounts has the counts of a model. Those of sequences are nanoseconds times sequences.
type modelCounts struct {
	arrived, ended, met counts // requests
	computed, cached    counts // tokens of prompts
	inFlight, running   counts
	requests            int64     // in flight
	since               time.Time // their number has been the same
}

// replicaCounts is what was last seen of a replica.
type replicaCounts struct {
	machine          *core.Machine
	running          int64 // sequences
	since            time.Time
	computed, cached uint64
	began            time.Time // of the step in flight, or of the first of the steady ones before it
	state            core.State
	stateSince       time.Time
}

// interval is a time in which a replica of a device was in one state.
type interval struct {
	replica  *replica
	state    core.State
	from, to time.Time
}

// open begins to collect, in about as many buckets as asked for.
func (c *series) open(s *simulation) {
	if s.cfg.Buckets <= 0 {
		return
	}
	n := time.Duration(s.cfg.Buckets)
	c.width, c.most = max(1, (s.cfg.Duration+n-1)/n), 2*s.cfg.Buckets
	c.models, c.busy = make(map[*model]*modelCounts), make(map[*device]map[*model]*counts)
	c.replicas, c.intervals = make(map[*replica]*replicaCounts), make(map[*device][]interval)
}

// of returns the counts of a model.
func (c *series) of(m *model) *modelCounts {
	n := c.models[m]
	if n == nil {
		n = &modelCounts{since: epoch}
		c.models[m] = n
		c.columns = append(c.columns, &n.arrived, &n.ended, &n.met, &n.computed, &n.cached, &n.inFlight, &n.running)
	}
	return n
}

// atLeast returns a time, or the beginning of virtual time if that is later: what is before counts nothing.
func atLeast(at time.Time) time.Time {
	if at.Before(epoch) {
		return epoch
	}
	return at
}

// bucket returns the bucket of a time. Buckets are made longer if there would be too many.
func (c *series) bucket(at time.Time) int {
	for int(since(at)/c.width) >= c.most {
		c.width *= 2
		for _, column := range c.columns {
			column.halve()
		}
	}
	return int(since(at) / c.width)
}

// halve makes one bucket of each two.
func (n counts) halve() {
	for i := range n {
		sum := n[i]
		if n[i] = 0; i%2 == 0 {
			n[i/2] = sum
		} else {
			n[i/2] += sum
		}
	}
}

// add adds a number to the bucket of a time.
func (c *series) add(to *counts, at time.Time, n int64) {
	i := c.bucket(at)
	for len(*to) <= i {
		*to = append(*to, 0)
	}
	(*to)[i] += n
}

// spread adds the nanoseconds of an interval, each n times, to the buckets in which they are.
func (c *series) spread(over *counts, from, to time.Time, n int64) {
	for n != 0 && from.Before(to) {
		next := c.bucket(from) + 1
		end := epoch.Add(time.Duration(next) * c.width)
		if end.After(to) {
			end = to
		}
		c.add(over, from, n*int64(end.Sub(from)))
		from = end
	}
}

// arrived counts a request that arrived.
func (c *series) arrived(m *model, at time.Time) {
	if c.width > 0 {
		c.add(&c.of(m).arrived, at, 1)
		c.flight(m, at, 1)
	}
}

// ended counts a request that was served or refused.
func (c *series) ended(m *model, met bool, at time.Time) {
	if c.width == 0 {
		return
	}
	c.add(&c.of(m).ended, at, 1)
	if met {
		c.add(&c.of(m).met, at, 1)
	}
	c.flight(m, at, -1)
}

// flight changes the number of requests in flight.
func (c *series) flight(m *model, at time.Time, by int64) {
	n := c.of(m)
	c.spread(&n.inFlight, n.since, at, n.requests)
	n.requests, n.since = n.requests+by, at
}

// seen returns what was last seen of a replica.
func (c *series) seen(r *replica) *replicaCounts {
	n := c.replicas[r]
	if n == nil {
		n = &replicaCounts{since: epoch, stateSince: epoch}
		c.replicas[r], c.order = n, append(c.order, r)
	}
	return n
}

// observe notes the state of a replica after its machine handled an event. Steady steps change none of it.
func (c *series) observe(r *replica, now time.Time) {
	if c.width == 0 {
		return
	}
	now = atLeast(now)
	seen, s := c.seen(r), r.machine.Status()
	if seen.machine != r.machine { // it was started again
		seen.machine, seen.computed, seen.cached = r.machine, 0, 0
	}
	if seen.state != s.State {
		c.endInterval(r, seen, now)
		seen.state, seen.stateSince = s.State, now
	}
	m := c.of(r.model)
	if running := int64(s.Running); running != seen.running {
		c.spread(&m.running, seen.since, now, seen.running)
		seen.running, seen.since = running, now
	}
	if t := s.Totals; t.TokensIn != seen.computed || t.TokensCached != seen.cached {
		c.add(&m.computed, now, int64(t.TokensIn)-int64(seen.computed))
		c.add(&m.cached, now, int64(t.TokensCached)-int64(seen.cached))
		seen.computed, seen.cached = t.TokensIn, t.TokensCached
	}
}

// gone ends what is counted of a replica.
func (c *series) gone(r *replica, now time.Time) {
	if c.width == 0 {
		return
	}
	now = atLeast(now)
	seen := c.seen(r)
	c.endInterval(r, seen, now)
	c.spread(&c.of(r.model).running, seen.since, now, seen.running)
	seen.state, seen.running = core.Created, 0
}

// endInterval notes the interval in which a replica was in the state that it leaves.
func (c *series) endInterval(r *replica, seen *replicaCounts, now time.Time) {
	if seen.state == core.Created || !seen.stateSince.Before(now) {
		return
	}
	c.intervals[r.device] = append(c.intervals[r.device], interval{r, seen.state, seen.stateSince, now})
}

// stepBegan notes when the step in flight began.
func (c *series) stepBegan(r *replica, now time.Time) {
	if c.width > 0 {
		c.seen(r).began = atLeast(now)
	}
}

// stepsEnded counts the time of the step that ends now, with the steady ones before it. The next one begins
// now, or when stepBegan says so.
func (c *series) stepsEnded(r *replica, now time.Time) {
	if c.width == 0 {
		return
	}
	if c.busy[r.device] == nil {
		c.busy[r.device] = make(map[*model]*counts)
	}
	busy := c.busy[r.device][r.model]
	if busy == nil {
		busy = new(counts)
		c.busy[r.device][r.model] = busy
		c.columns = append(c.columns, busy)
	}
	seen := c.seen(r)
	c.spread(busy, seen.began, now, 1)
	seen.began = now
}
