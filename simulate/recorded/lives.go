package recorded

import (
	"strings"

	"troupe/recording"
	"troupe/simulate"
)

// Names of the metrics of Lives.
const (
	Wakes     = "wakes"
	Starts    = "starts"
	StartTime = "mean start"
)

// Lives compares how replicas of each model came and went, by the events of a recording: how often a model without
// replicas got one, how many replicas were started, the mean time from their place to their service, and the starts on
// a device that a replica of another model had left.
func Lives(r *recording.Recording, s simulate.Result) (all []Metric) {
	is := livesOf(r)
	var switches float64
	for _, m := range s.Models {
		l := is.of(m.Model)
		all = append(all,
			newMetric(m.Model, Wakes, known(l.wakes), known(float64(m.Wakes)), whole),
			newMetric(m.Model, Starts, known(l.starts), known(float64(m.Starts)), whole),
			newMetric(m.Model, StartTime, share(l.took, l.starts), share(m.StartSeconds, float64(m.Starts)), seconds))
		switches += float64(m.Switches)
	}
	return append(all, newMetric("all", Switches, known(is.switches), known(switches), whole))
}

// lives is what became of replicas.
type lives struct {
	models   map[string]*life
	last     map[string]string // model of the last replica that served by device
	serving  map[string]string // device by replica, until it has left
	switches float64
}

// life is what became of the replicas of a model.
type life struct {
	there         map[string]bool    // by replica
	placed        map[string]float64 // when a replica was placed that has not served
	wakes, starts float64
	took          float64 // seconds of all starts
}

func (l *lives) of(model string) *life {
	if l.models[model] == nil {
		l.models[model] = &life{there: make(map[string]bool), placed: make(map[string]float64)}
	}
	return l.models[model]
}

func livesOf(r *recording.Recording) *lives {
	is := &lives{models: make(map[string]*life), last: make(map[string]string),
		serving: make(map[string]string)}
	for _, p := range r.Snapshot.Replicas {
		is.of(p.Model).there[p.Name] = true
		is.last[p.Node+"/"+p.Device], is.serving[p.Name] = p.Model, p.Node+"/"+p.Device
	}
	for _, e := range r.Events {
		model := modelOf(e.Subject)
		switch e.Kind {
		case "replica.placed":
			is.of(model).place(e)
		case "replica.stopped", "replica.lost":
			delete(is.of(model).there, e.Subject)
			delete(is.serving, e.Subject)
		case "replica.serving":
			if is.of(model).serve(e) {
				is.serve(e.Subject, strings.TrimPrefix(e.Detail, "on "))
			}
		}
	}
	return is
}

func (l *life) place(e recording.Event) {
	if len(l.there) == 0 {
		l.wakes++
	}
	l.there[e.Subject], l.placed[e.Subject] = true, e.At
}

// serve ends the start of a replica. It reports false if the start began before the recording.
func (l *life) serve(e recording.Event) bool {
	began, known := l.placed[e.Subject]
	if known {
		l.starts++
		l.took += e.At - began
		delete(l.placed, e.Subject)
	}
	return known
}

// serve counts a switch if the model that served last on the device has left it.
func (l *lives) serve(replica, device string) {
	model, before := modelOf(replica), l.last[device]
	left := before != "" && before != model
	for other, at := range l.serving {
		left = left && (at != device || modelOf(other) != before)
	}
	if left {
		l.switches++
	}
	l.last[device], l.serving[replica] = model, device
}

// modelOf returns the model of a replica, which is called like it, with a number.
func modelOf(replica string) string { return replica[:max(0, strings.LastIndexByte(replica, '-'))] }
