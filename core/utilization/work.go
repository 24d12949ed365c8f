package utilization

import "time"

// Work is what steps ask of a device.
type Work struct {
	FLOPs float64 // floating-point operations; a multiplication with an addition counts as two
	Bytes float64 // read from or written to device memory
}

// Add adds the work of other steps.
func (w *Work) Add(other Work) {
	w.FLOPs += other.FLOPs
	w.Bytes += other.Bytes
}

// Known reports whether work was counted: every step has some.
func (w Work) Known() bool { return w.FLOPs > 0 || w.Bytes > 0 }

// Peaks are the highest rates of a device. The zero value means that they are unknown.
type Peaks struct {
	FLOPs  float64 // per second
	Bytes  float64 // per second, of device memory
	Source string  // where the rates are from: "measured", or a datasheet
}

// Known reports whether both rates are known.
func (p Peaks) Known() bool { return p.FLOPs > 0 && p.Bytes > 0 }

// Least returns the least time in which the device can do the work of one step. It is unknown without peaks or work.
func (p Peaks) Least(w Work) (least time.Duration, known bool) {
	if !p.Known() || !w.Known() {
		return 0, false
	}
	seconds := max(w.FLOPs/p.FLOPs, w.Bytes/p.Bytes)
	return time.Duration(seconds * float64(time.Second)), true
}

// Counters are the steps that a replica has run since it started.
type Counters struct {
	Steps   time.Duration // time in them
	Counted time.Duration // time in those whose work was counted
	Least   time.Duration // least time of the counted steps; 0 without peaks
	Work                  // of the counted steps
}

// Step adds a step. Without work it is not counted.
func (c *Counters) Step(took time.Duration, w Work, least time.Duration) {
	c.Steps += took
	if !w.Known() {
		return
	}
	c.Counted += took
	c.Least += min(least, took)
	c.Add(w)
}

// since returns what was added to earlier counters.
func (c Counters) since(earlier Counters) Counters {
	return Counters{
		Steps: c.Steps - earlier.Steps, Counted: c.Counted - earlier.Counted, Least: c.Least - earlier.Least,
		Work: Work{c.FLOPs - earlier.FLOPs, c.Bytes - earlier.Bytes},
	}
}

func (c *Counters) merge(other Counters) {
	c.Steps += other.Steps
	c.Counted += other.Counted
	c.Least += other.Least
	c.Work.Add(other.Work)
}
