package simulate

import (
	"time"

	"troupe/core/deployment"
)

// note records an event with the names and values of its texts.
func (w *recorder) note(at time.Time, event string, texts ...string) {
	if !w.begin(at, event) {
		return
	}
	for i := 0; i < len(texts); i += 2 {
		w.text(texts[i], texts[i+1])
	}
	w.end()
}

// serve records that a replica serves for the first time.
func (w *recorder) serve(at time.Time, r *replica, before *model, took time.Duration) {
	if w.begin(at, "serve") {
		w.text("replica", r.name)
		w.text("device", r.device.name())
		if before != nil {
			w.text("after", before.Name)
		}
		w.text("took", took.String())
		w.end()
	}
}

// scale records a new number of replicas, and their level.
func (w *recorder) scale(at time.Time, m *model, replicas int, level deployment.Level, why string) {
	if w.begin(at, "scale") {
		w.text("deployment", m.Name)
		w.number("from", m.wanted)
		w.number("to", replicas)
		if level != m.level {
			w.text("level", level.String())
		}
		w.text("why", why)
		w.end()
	}
}
