package replica

import "slices"

// maxNamed is how many sequences a replica's report names. With more, there is nothing to be found by looking at them, and routers tell each other of
// every report.
const maxNamed = 4

// requests are the sequences that the replica holds something for, in order. Those that leave are among those that run or wait.
func (r *replica) requests() []string {
	if len(r.calls)+len(r.arrivals) > maxNamed {
		return nil
	}
	var ids []string
	for id := range r.calls {
		ids = append(ids, id)
	}
	for id, a := range r.arrivals {
		if a.resumed == nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
