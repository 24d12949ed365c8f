package deployment

import "time"

// pollGPUs requests the status of the GPUs that have replicas, to detect quarantines, and of those in
// quarantine on which a replica is to start.
func (d *Deployment) pollGPUs() {
	queried := make(map[Location]bool)
	query := func(at Location) {
		if d.nodes[at.Node] != nil && !queried[at] {
			queried[at] = true
			d.emit(AskGPU{at})
		}
	}
	for _, name := range sorted(d.replicas) {
		query(d.replicas[name].spec.At)
	}
	for _, name := range sorted(d.spec.Assigned) {
		if at, _ := d.spec.Assigned[name].location(); d.quarantined[at] {
			query(at)
		}
	}
	for _, name := range sorted(d.lastPlacement) {
		if at := d.lastPlacement[name]; d.quarantined[at] {
			query(at)
		}
	}
}

func (d *Deployment) onGPUReport(e GPUReport, now time.Time) {
	if changed := e.Quarantined != d.quarantined[e.At]; changed {
		d.quarantined[e.At] = e.Quarantined
		d.reconcile(now)
	}
}
