package utilization

import "time"

const (
	// Length is the time that a window covers.
	Length = 60 * time.Second
	// Slots is the number of slots of a window.
	Slots = 12
	// SlotLength is the time that a slot covers.
	SlotLength = Length / Slots
)

// Window has the steps of all replicas of a device within the last Length.
type Window struct {
	began    time.Time
	slots    [Slots + 1]slot
	replicas map[string]report
}

// slot has the steps that were reported within SlotLength. The slot in progress is the last of Slots + 1, so that a
// window covers at least Length.
type slot struct {
	number int64 // start of the slot / SlotLength, in Unix time
	steps  Counters
}

// report is the last report of a replica.
type report struct {
	at      time.Time
	started uint64
	Counters
}

// NewWindow returns the window of a device that is observed since began.
func NewWindow(began time.Time) *Window {
	return &Window{began: began, replicas: make(map[string]report)}
}

// Report counts what a replica has run since its last report. An incarnation, which has the time of its start, counts
// from zero. The first report of a replica, and one more than Length after the last, only sets where to count from: it
// may have run its steps long ago.
func (w *Window) Report(replica string, started uint64, c Counters, now time.Time) {
	last, known := w.replicas[replica]
	w.replicas[replica] = report{now, started, c}
	n := slotNumber(now)
	s := &w.slots[n%int64(len(w.slots))]
	if s.number != n {
		*s = slot{number: n}
		w.forget(now)
	}
	if known && now.Sub(last.at) <= Length {
		if last.started != started {
			last.Counters = Counters{}
		}
		s.steps.merge(c.since(last.Counters))
	}
}

// forget drops replicas that no longer report.
func (w *Window) forget(now time.Time) {
	for name, r := range w.replicas {
		if now.Sub(r.at) > Length {
			delete(w.replicas, name)
		}
	}
}

func slotNumber(now time.Time) int64 { return now.UnixNano() / int64(SlotLength) }

// Figures returns what was reported within the last Length, and in the slot in progress.
func (w *Window) Figures(now time.Time) Figures {
	n := slotNumber(now)
	start := time.Unix(0, (n-Slots)*int64(SlotLength))
	if start.Before(w.began) {
		start = w.began
	}
	f := Figures{Observed: max(now.Sub(start), 0)}
	for _, s := range w.slots {
		if s.number >= n-Slots && s.number <= n {
			f.merge(s.steps)
		}
	}
	return f
}

// Figures are the steps of a device within a window.
type Figures struct {
	Observed time.Duration // time that the figures cover; 0: nothing is known
	Counters
}

// TimeShare returns the share of the observed time in steps. It is unknown if nothing was observed.
func (f Figures) TimeShare() (share float64, known bool) {
	if f.Observed <= 0 {
		return 0, false
	}
	return min(f.Steps.Seconds()/f.Observed.Seconds(), 1), true
}

// Rates returns the work per second of the observed time. It is unknown if a step was not counted.
func (f Figures) Rates() (perSecond Work, known bool) {
	if f.Observed <= 0 || f.Counted < f.Steps {
		return Work{}, false
	}
	seconds := f.Observed.Seconds()
	return Work{f.FLOPs / seconds, f.Bytes / seconds}, true
}

// RooflineShare returns the share of the roofline that the steps reached. It is unknown without steps or peaks, and if
// a step was not counted.
func (f Figures) RooflineShare(p Peaks) (share float64, known bool) {
	if !p.Known() || f.Steps <= 0 || f.Counted < f.Steps {
		return 0, false
	}
	return f.Least.Seconds() / f.Steps.Seconds(), true
}

// Utilization returns the time share times the roofline share. It is unknown without peaks, and if a step was not
// counted.
func (f Figures) Utilization(p Peaks) (share float64, known bool) {
	busy, observed := f.TimeShare()
	reached, counted := f.RooflineShare(p)
	switch {
	case !observed || !p.Known():
		return 0, false
	case f.Steps == 0:
		return 0, true
	}
	return busy * reached, counted
}
