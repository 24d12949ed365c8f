package replica

import (
	"math/bits"
	"time"
)

const (
	// stepFactor is how many times its expected time a step may take. Steps of one size class
	// differ by up to 2 in tokens, attention over a long context takes several times as long as
	// over a short one, and a busy host slows the software device down.
	stepFactor = 20
	// firstFactor is how many times the step timeout the first step of an incarnation may take. It
	// compiles kernels, captures graphs, and touches memory for the first time.
	firstFactor = 12
	// largerFactor applies to a step that is larger than any measured one. Its expected time is
	// already too long: it is proportional to the tokens, although small steps are bound by memory.
	largerFactor = 2
	// meanWindow is the number of steps in the running mean of a size class.
	meanWindow = 8
	// sizeClasses has a class for each power of two of tokens in a step.
	sizeClasses = 24
)

// pace estimates how long a step takes, from the steps that the replica has measured. It keeps a
// running mean for each class of sizes.
type pace [sizeClasses]time.Duration

func classOf(tokens int) int { return min(bits.Len(uint(tokens)), sizeClasses-1) }

// observe learns the duration of a step. One step changes a mean by at most the bound that it
// exceeded, so that a hung step does not hide the next one.
func (p *pace) observe(tokens int, took, bound time.Duration) {
	mean := &p[classOf(tokens)]
	took = min(took, 2*bound)
	if *mean == 0 {
		*mean = max(took, 1)
		return
	}
	*mean += (took - *mean) / meanWindow
}

// expected returns the expected duration of a step, and the factor by which it may be exceeded. The
// factor is 0 if nothing was measured yet. A step takes no longer than a measured larger one.
func (p *pace) expected(tokens int) (time.Duration, int) {
	class := classOf(tokens)
	for _, mean := range p[class:] {
		if mean > 0 {
			return mean, stepFactor
		}
	}
	for smaller := class - 1; smaller >= 0; smaller-- {
		if p[smaller] > 0 {
			return p[smaller] << (class - smaller), largerFactor
		}
	}
	return 0, 0
}

// bound returns the time after which a step counts as hung. It is at least the step timeout.
func (p *pace) bound(tokens int, timeout time.Duration) time.Duration {
	expected, factor := p.expected(tokens)
	if factor == 0 {
		return firstFactor * timeout
	}
	return max(timeout, time.Duration(factor)*expected)
}
