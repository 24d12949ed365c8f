package kv

import "time"

// Rate is a measured speed, in units a second: bytes copied, tokens prefilled. Newer measurements count more. The zero value knows nothing.
type Rate struct {
	units, seconds float64
}

// forget is what is left of the older measurements at each new one.
const forget = 0.9

// Add takes a measurement.
func (r *Rate) Add(units float64, took time.Duration) {
	if units <= 0 || took <= 0 {
		return
	}
	r.units, r.seconds = forget*r.units+units, forget*r.seconds+took.Seconds()
}

// doubt is by how much a rate that was not taken is thought to be better than it was.
const doubt = 0.01

// Doubt says that what was measured kept somebody from using this, so that it is not measured again: it is thought a little faster each time, and so is tried
// again some day, should the measurements have been of a bad moment.
func (r *Rate) Doubt() { r.seconds *= 1 - doubt }

// Merge takes the measurements of another rate, as newer ones.
func (r *Rate) Merge(newer Rate) { r.Add(newer.units, seconds(newer.seconds)) }

// PerSecond is the speed; 0 while nothing was measured.
func (r *Rate) PerSecond() float64 {
	if r.seconds == 0 {
		return 0
	}
	return r.units / r.seconds
}

// Time is how many seconds so many units take; false while nothing was measured.
func (r *Rate) Time(units float64) (seconds float64, ok bool) {
	if r.seconds == 0 {
		return 0, false
	}
	return units * r.seconds / r.units, true
}
