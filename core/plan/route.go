package plan

import (
	"cmp"
	"fmt"
	"slices"
)

// Replica is a candidate for a request.
type Replica struct {
	Name    string
	Running int
	Waiting int
	Routed  int  // sent there since it last reported
	Avoid   bool // it failed this request just now
}

func (r Replica) load() int { return r.Running + r.Waiting + r.Routed }

// Route chooses the replica for a request: one not to be avoided where there is one, then the least loaded, then by name.
func Route(replicas []Replica) (name, why string, ok bool) {
	if len(replicas) == 0 {
		return "", "no replica serves", false
	}
	best := slices.MinFunc(replicas, func(a, b Replica) int {
		return cmp.Or(order(a.Avoid, b.Avoid), cmp.Compare(a.load(), b.load()), cmp.Compare(a.Name, b.Name))
	})
	return best.Name, fmt.Sprintf("%s has the least load of %d: %d running, %d waiting, %d on the way",
		best.Name, len(replicas), best.Running, best.Waiting, best.Routed), true
}

func order(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
