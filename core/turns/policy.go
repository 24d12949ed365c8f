package turns

import "time"

// policy is what a priority class means for turns.
type policy struct {
	weight      float64
	first, each time.Duration
}

// policies has the weight of deployments of each priority class, and when the tokens of sequences of
// each class are due.
//
// Weights only divide the time that requests of one class get, since requests of a higher class go
// first. A factor of two for each class makes the difference felt, and leaves a batch deployment a
// seventh of the device beside one of each other class, so that it need not be saved by MaxWait.
//
// A token of an interactive request is due at reading speed, and that of a standard request when a
// reader would begin to wait for it. Deployments have no SLO of their own yet.
var policies = map[Class]policy{
	1: {weight: 1},
	2: {weight: 2, first: 2 * time.Second, each: 200 * time.Millisecond},
	3: {weight: 4, first: 500 * time.Millisecond, each: 50 * time.Millisecond},
}

// Weight returns the weight of the replicas of a deployment of a priority class.
func Weight(of Class) float64 { return max(policies[of].weight, 1) }

// Due returns how long after its arrival the first token of a sequence is due, and how long after the
// last token the next one. Zero means that they are never due.
func Due(of Class) (first, each time.Duration) {
	p := policies[of]
	return p.first, p.each
}
