package cluster

import (
	"errors"
	"fmt"
	"time"
)

// Load describes concurrent clients, their requests and the expected answers.
type Load struct {
	Requests []Request
	Answers  []Answer // expected answer to each request
	Streams  int      // number of concurrent clients
	Gateways []*Node  // used in turn; a rejected client tries the next one
	Repeat   bool     // start over after the last request, until Finish
	// Rest is how long each client waits between two streams that begin after MarkOpen, until WaitStreaming
	// is called again. A fault that lasts then need not keep all cores busy.
	Rest time.Duration
	// Permitted are the codes of refusals, such as "model_stopped" or NoMemory, after which a client
	// makes its next request. That the time of a request is up is always permitted, if it is.
	Permitted []string
}

// Report is the result of a load.
type Report struct {
	Streams  int             // number of streams with exactly the expected answer
	First    []time.Duration // time to the first token of each stream, with repeated requests, ascending
	Pauses   []time.Duration // longest pause of each stream, ascending
	Affected []time.Duration // longest pauses of the streams that were open at MarkOpen, ascending
	Retried  int             // requests repeated because their gateway was killed or refused them
	Refused  map[string]int  // permitted refusals, by code
	Errors   []error         // errors of the other streams, oldest first
}

// Err returns an error unless all streams were exact.
func (r Report) Err() error {
	switch {
	case len(r.Errors) == 0 && r.Streams == 0:
		return errors.New("no stream was completed")
	case len(r.Errors) == 0:
		return nil
	}
	return fmt.Errorf("%d of %d streams are wrong: %w", len(r.Errors), len(r.Errors)+r.Streams,
		errors.Join(r.Errors[:min(5, len(r.Errors))]...))
}

// String formats the report in a line.
func (r Report) String() string {
	return fmt.Sprintf("%d streams exact, %d wrong, %d retried; longest pause: %s; of the %d affected streams: %s",
		r.Streams, len(r.Errors), r.Retried, Summarize(r.Pauses), len(r.Affected), Summarize(r.Affected))
}

// Summarize formats the quantiles of ascending values.
func Summarize(ascending []time.Duration) string {
	ms := func(q float64) time.Duration { return Quantile(ascending, q).Round(time.Millisecond) }
	return fmt.Sprintf("p50 %s, p99 %s, max %s", ms(0.5), ms(0.99), ms(1))
}

// Quantile returns the value at quantile q of ascending values, or 0 if there are none.
func Quantile(ascending []time.Duration, q float64) time.Duration {
	if len(ascending) == 0 {
		return 0
	}
	return ascending[min(int(q*float64(len(ascending))), len(ascending)-1)]
}
