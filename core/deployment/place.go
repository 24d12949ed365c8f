package deployment

import (
	"cmp"
	"slices"
	"time"

	"troupe/core/backend"
	"troupe/core/hbm"
	"troupe/core/schedule"
)

// GPU is the status report of a GPU.
type GPU struct {
	At          Location
	Quarantined bool
	Memory      hbm.Budget
	Residents   []string            // names of the replicas counted in Memory
	Leases      map[string]hbm.Need // replica -> its leased memory
	Weights     map[string]Weights  // by the digest of the model's files
	Near        schedule.Where      // where its node has the weights of the replica that is being placed
	Holders     []schedule.Holder   // models whose replicas count in Memory
	Engine      backend.Kind        // of the engines that it runs
}

// Weights are weights in the memory of a GPU.
type Weights struct {
	Bytes int64 // in whole pages
	Used  bool  // by a replica, so that they are counted in the memory of the GPU
}

// gpus returns all GPUs, and adds a nil entry for each to answers.
func (d *Deployment) gpus(answers map[Location]*GPU) (all []Location) {
	for _, name := range sorted(d.nodes) {
		for _, gpu := range d.nodes[name].GPUs {
			at := Location{name, gpu}
			all, answers[at] = append(all, at), nil
		}
	}
	return all
}

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
		if r := d.replicas[name]; r.phase > Placing {
			query(r.spec.At)
		}
	}
	for _, name := range sorted(d.spec.Assigned) {
		if at, _ := d.spec.Assigned[name].location(); d.quarantined[at] {
			query(at)
		}
	}
	for _, name := range sorted(d.lastPlacement) {
		if at := d.lastPlacement[name]; d.planned() && d.quarantined[at] {
			query(at)
		}
	}
}

func (d *Deployment) onGPUReport(g GPU, now time.Time) {
	changed := g.Quarantined != d.quarantined[g.At]
	d.quarantined[g.At] = g.Quarantined
	delete(d.silent, g.At)
	if _, queried := d.survey[g.At]; queried {
		d.survey[g.At] = &g
	}
	for name, r := range d.replicas {
		if r.spec.At == g.At {
			r.memory = g.Leases[name]
		}
	}
	d.answerPlace(&g, now)
	if changed {
		d.reconcile(now)
	}
}

// answerPlace adds an answer to the replica that is being placed, and places it after the last one.
func (d *Deployment) answerPlace(g *GPU, now time.Time) {
	r := d.replicas[d.placing]
	if r == nil || r.phase != Placing {
		return
	}
	before, queried := r.answers[g.At]
	if !queried {
		return
	}
	r.answers[g.At] = g
	if before == nil {
		r.unanswered--
	}
	if r.unanswered == 0 {
		d.choose(r, now)
	}
}

// onPlaceTimeout places a replica without the GPUs that have not answered. It ignores the timeout of an
// earlier attempt, or of an earlier replica with this name.
func (d *Deployment) onPlaceTimeout(e PlaceTimeout, now time.Time) {
	if r := d.replicas[e.Replica]; r != nil && r.phase == Placing && r.placement == e.Number {
		d.choose(r, now)
	}
}

// choose places a replica on the GPU that still has its lease, otherwise on the one that
// core/schedule chooses.
func (d *Deployment) choose(r *replica, now time.Time) {
	if !d.sized { // the size became unknown meanwhile
		d.fire(r, notPlaced, none, now)
		d.reconcile(now)
		return
	}
	at, left := d.lastPlacement[r.spec.Name]
	if last := r.answers[at]; !left || last == nil || last.Quarantined || !d.runs(last) || !d.schedulable(at.Node) {
		d.noteSilence(r.answers, now)
		gpus := d.candidates(r.answers, r, now)
		chosen, why, ok := schedule.Place(d.need, gpus)
		if !ok {
			closest, evictable := schedule.ClosestFit(d.need, gpus)
			missing := memoryOf(d.spec.Path, closest, evictable)
			if missing != (Memory{}) {
				missing.Room = d.roomOn(gpus)
			}
			d.onNoRoom(r, why, missing, schedule.RoomLater(d.need, gpus), now)
			return
		}
		at = Location{chosen.Node, chosen.Name}
		d.emit(Placed{r.spec.Name, at, why})
	}
	r.spec.At, d.unplaced = at, false
	d.fire(r, placed, none, now)
}

// runs reports whether a GPU runs engines of the deployment's kind.
func (d *Deployment) runs(g *GPU) bool { return g.Engine.OrNative() == d.spec.Engine.Kind.OrNative() }

// onNoRoom drops a replica that fits no GPU. The next Tick retries. later is set if a GPU that is avoided has
// room.
func (d *Deployment) onNoRoom(r *replica, why string, missing Memory, later bool, now time.Time) {
	d.fire(r, notPlaced, none, now)
	d.noRoom, d.unplaced = true, true
	if d.failure == nil || d.failure.unplaced { // a failure on a GPU is more specific
		f := Failure{
			Reason: NoMemory, Detail: "no GPU for replica " + r.spec.Name + ": " + why, unplaced: true, later: later,
		}
		if d.spec.Engine.Kind == backend.Simulated && missing == (Memory{}) {
			f.Detail += "; simulated models run on simulated devices only, see --simulated-devices"
		}
		if missing != (Memory{}) {
			f.Detail += "; delete a model, lower max_sequences or kv_blocks, or add a GPU" + missing.Room.text()
			f.Memory = missing
		}
		d.fail(f)
	}
	d.reconcile(now)
}

// candidates returns the GPUs as candidates for placement. It counts replicas other than exclude
// that are starting on a GPU whose budget does not include them yet.
func (d *Deployment) candidates(answers map[Location]*GPU, exclude *replica, now time.Time) (all []schedule.GPU) {
	for at, answer := range answers {
		g := schedule.GPU{
			Node: at.Node, Name: at.GPU, Avoid: now.Before(d.avoidUntil[at]), Silent: answer == nil,
			Draining: !d.schedulable(at.Node),
		}
		var residents []string
		if answer != nil {
			g.Memory, g.Quarantined, residents = answer.Memory, answer.Quarantined, answer.Residents
			g.OtherEngine = !d.runs(answer)
			g.Evictable, g.Weights = d.evictable(answer), answer.Near
			g.Holders = slices.DeleteFunc(slices.Clone(answer.Holders), func(h schedule.Holder) bool {
				return h.Model == d.name
			})
			if w, there := answer.Weights[d.spec.Revision.Digest]; there && d.spec.Revision.Digest != "" {
				if g.Weights = schedule.OnDevice; w.Used {
					g.Memory.Fixed -= w.Bytes // a replica shares them
				}
			}
		}
		for name, other := range d.replicas {
			if other == exclude || other.spec.At != at || other.phase > Up {
				continue
			}
			g.Siblings++
			if other.phase < Up && !slices.Contains(residents, name) {
				g.Memory = g.Memory.With(d.need)
			}
		}
		all = append(all, g)
	}
	slices.SortFunc(all, func(a, b schedule.GPU) int { return cmp.Compare(a.String(), b.String()) })
	return all
}

// evictable returns the bytes of the weights on a GPU that no replica uses and that a replica of the
// deployment would not use either.
func (d *Deployment) evictable(g *GPU) (bytes int64) {
	for digest, w := range g.Weights {
		if !w.Used && digest != d.spec.Revision.Digest {
			bytes += w.Bytes
		}
	}
	return bytes
}
