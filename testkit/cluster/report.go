package cluster

import (
	"errors"
	"fmt"
	"time"
)

// Load is what clients ask for at once, and what they must get.
type Load struct {
	Requests []Request
	Answers  []Answer // to each request, of an undisturbed run
	Streams  int      // at once
	Gateways []*Node  // taken in turn; a client that is turned away goes to the next one
	Repeat   bool     // begin again after the last request, until told to finish
}

// Report is what became of a load.
type Report struct {
	Streams  int             // that ended with exactly the expected answer
	Pauses   []time.Duration // the longest of each, in ascending order
	Affected []time.Duration // likewise, of those that were open at a Mark
	Retried  int             // requests made again: their gateway was killed under them, or took nothing
	Errors   []error         // of the others, first come first
}

// Err says what went wrong in the report, if anything did.
func (r Report) Err() error {
	switch {
	case len(r.Errors) == 0 && r.Streams == 0:
		return errors.New("no stream was seen to its end")
	case len(r.Errors) == 0:
		return nil
	}
	return fmt.Errorf("%d of %d streams are not what they should be: %w", len(r.Errors), len(r.Errors)+r.Streams, errors.Join(r.Errors[:min(5, len(r.Errors))]...))
}

// String is the report in a line.
func (r Report) String() string {
	return fmt.Sprintf("%d streams exact, %d wrong, %d retried; longest pause: %s; of the %d streams that were hit: %s",
		r.Streams, len(r.Errors), r.Retried, Summarize(r.Pauses), len(r.Affected), Summarize(r.Affected))
}

// Summarize describes ascending values in words.
func Summarize(ascending []time.Duration) string {
	ms := func(q float64) time.Duration { return Quantile(ascending, q).Round(time.Millisecond) }
	return fmt.Sprintf("p50 %s, p99 %s, max %s", ms(0.5), ms(0.99), ms(1))
}

// Quantile returns the value that a share q of the ascending values does not exceed; 0 of none.
func Quantile(ascending []time.Duration, q float64) time.Duration {
	if len(ascending) == 0 {
		return 0
	}
	return ascending[min(int(q*float64(len(ascending))), len(ascending)-1)]
}
