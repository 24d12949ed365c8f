package kv

import "time"

// Rate is a measured speed in units per second, such as bytes copied or tokens prefilled. Newer
// measurements count more. The zero value has no measurements.
type Rate struct {
	units, seconds float64
}

// historyWeight is the factor applied to older measurements at each new one.
const historyWeight = 0.9

// Add adds a measurement.
func (r *Rate) Add(units float64, took time.Duration) {
	if units <= 0 || took <= 0 {
		return
	}
	r.units, r.seconds = historyWeight*r.units+units, historyWeight*r.seconds+took.Seconds()
}

// decayStep is the relative speedup that Decay assumes each time.
const decayStep = 0.01

// Decay records that a path was avoided because of its measured rate, and therefore was not
// measured again. Each call assumes a slightly higher rate. The path is thus tried again
// eventually, in case the measurements came from a bad moment.
func (r *Rate) Decay() { r.seconds *= 1 - decayStep }

// Merge adds newer measurements, taken by another Rate.
func (r *Rate) Merge(newer Rate) { r.Add(newer.units, seconds(newer.seconds)) }

// PerSecond returns the rate, or 0 if nothing was measured.
func (r *Rate) PerSecond() float64 {
	if r.seconds == 0 {
		return 0
	}
	return r.units / r.seconds
}

// Time returns the time for a number of units, in seconds. It reports false if nothing was measured.
func (r *Rate) Time(units float64) (seconds float64, ok bool) {
	if r.seconds == 0 {
		return 0, false
	}
	return units * r.seconds / r.units, true
}
