package replica

import "slices"

// maxReportedRequests is the maximum number of request ids in a report. A longer list helps no
// reader, and routers exchange every report.
const maxReportedRequests = 4

// requestIDs returns the sorted ids of the requests that the replica holds resources for, or nil if
// there are more than maxReportedRequests. Outgoing sequences are included as running or waiting
// ones.
func (r *replica) requestIDs() []string {
	if len(r.sequences)+len(r.incoming) > maxReportedRequests {
		return nil
	}
	var ids []string
	for id := range r.sequences {
		ids = append(ids, id)
	}
	for id, in := range r.incoming {
		if in.resumeResult == nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
