package simulate

import (
	"time"

	"troupe/core/migrate"
	"troupe/core/restore"
)

// restore records a restore of blocks from tiers: of how many, and how many arrive in time.
func (w *recorder) restore(r *replica, e restore.Copy, arrive int) {
	if w.begin(r.sim.key.at, "restore") {
		w.text("replica", r.name)
		w.text("request", e.ID)
		w.number("blocks", len(e.Blocks))
		w.number("arrive", arrive)
		w.text("why", e.Why)
		w.end()
	}
}

// abort records that a step ended early.
func (w *recorder) abort(at time.Time, r *replica, a *abort) {
	if w.begin(at, "abort") {
		w.text("replica", r.name)
		w.number("step", int(r.step.Step))
		w.text("request", r.step.Entries[a.entry].ID)
		w.text("why", a.why)
		w.end()
	}
}

// adapter records what becomes of an adapter on a replica's device.
func (w *recorder) adapter(r *replica, event, key string) {
	if w.begin(r.sim.key.at, "adapter-"+event) {
		w.text("replica", r.name)
		w.text("adapter", key)
		w.end()
	}
}

// migrate records how the migration of a sequence ended.
func (w *recorder) migrate(at time.Time, r *replica, e migrate.End) {
	if !w.begin(at, "migrate") {
		return
	}
	w.text("replica", r.name)
	w.text("request", e.ID)
	w.text("target", e.Target)
	if e.Report.Moved {
		w.number("blocks", e.Report.Blocks)
		w.number("reused", e.Report.Reused)
		w.text("pause", e.Report.Pause.String())
	} else {
		w.text("stays", e.Report.Detail)
	}
	w.number("bytes", int(e.Report.Bytes))
	w.text("took", e.Report.Elapsed.String())
	w.end()
}
