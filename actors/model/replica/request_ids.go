package replica

import "slices"

// maxReportedRequests is how many sequences a replica's report names. With more, there is nothing to be found by looking at them, and routers tell each other of
// every report.
const maxReportedRequests = 4

// requestIDs are the sequences that the replica holds something for, in order. Those that leave are among those that run or wait.
func (r *replica) requestIDs() []string {
	if len(r.sequences)+len(r.incoming) > maxReportedRequests {
		return nil
	}
	var ids []string
	for id := range r.sequences {
		ids = append(ids, id)
	}
	for id, a := range r.incoming {
		if a.resumeResult == nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
