package simulate

import (
	memory "troupe/core/device"
)

// group has the devices of a replica beside its first one. Each has an equal part of the weights and of the KV blocks,
// and the times of steps are those of the group. All steps, turns and KV blocks are managed on the first device. Only
// critical models may have several devices for a replica, so that no other model is on them.
type group struct {
	others  []*device
	waiting map[*device]bool   // their part is not loaded
	answer  *memory.AnswerLoad // of the first device, which waits for the others
}

// joinGroup adds the devices of the group.
func (r *replica) joinGroup() {
	for _, d := range r.model.assignedTo(r.name) {
		if d != r.device {
			r.group.others = append(r.group.others, d)
			d.parts = append(d.parts, r)
			d.hold(r.name, r.model)
		}
	}
}

// leaveGroup removes a replica that has ended.
func (r *replica) leaveGroup() {
	for _, d := range r.group.others {
		d.parts = remove(d.parts, r)
	}
}

// loadParts loads the parts of the other devices.
func (r *replica) loadParts(spec memory.Spec) {
	r.group.waiting, r.group.answer = make(map[*device]bool), nil
	for _, d := range r.group.others {
		r.group.waiting[d] = true
		d.changed()
		d.performMemory(d.memory.LoadAsked(memory.Request{ID: r.name, From: r.owner()}, spec, d.health.State(),
			r.sim.key.at))
	}
}

// part returns the replica of which a lease of the device is a part beside the first one; nil: it is none.
func (d *device) part(lease string) *replica {
	for _, r := range d.parts {
		if r.name == lease {
			return r
		}
	}
	return nil
}

// answerLoad tells a replica that a part of it is loaded, and starts it when all parts are.
func (d *device) answerLoad(e memory.AnswerLoad) {
	s := d.sim
	s.post(func() {
		r := d.part(e.Model.Lease)
		if r != nil {
			delete(r.group.waiting, d)
		} else if r = d.find(e.Model.Lease); r != nil {
			r.group.answer = &e
		}
		if r == nil || r.ended || r.group.answer == nil || len(r.group.waiting) > 0 {
			return
		}
		answer := *r.group.answer
		r.group.answer = nil
		r.touch()
		r.loaded(answer, s.key.at)
	})
}

// refuseLoad tells a replica that a part of it cannot be loaded.
func (d *device) refuseLoad(e memory.RefuseLoad) {
	s := d.sim
	s.post(func() {
		r := d.part(e.Spec.Lease)
		if r == nil {
			r = d.find(e.Spec.Lease)
		}
		if r != nil && !r.ended {
			r.touch()
			r.loadRefused(e.Refusal, s.key.at)
		}
	})
}
