package cluster

import (
	"context"
	"sync"
	"time"
)

// Timed is a request that is sent at a time, with the expected answer.
type Timed struct {
	At time.Duration // since the beginning
	Request
	Answer Answer
}

// Played is what became of a Timed.
type Played struct {
	First   time.Duration // until the first token, with repeated requests; 0: there was none
	Last    time.Duration // until the last one
	Pause   Pause         // the longest one
	Retried int           // how often it was repeated because its gateway was killed
	Err     error         // nil: the answer is exactly the expected one
}

// TPOT returns the mean time of a further token, or 0 if there is none.
func (p Played) TPOT(a Answer) time.Duration {
	if a.Tokens < 2 {
		return 0
	}
	return (p.Last - p.First) / time.Duration(a.Tokens-1)
}

// TimedOut reports whether the request was answered with a timeout.
func (p Played) TimedOut() bool { return refusalCode(p.Err) == timedOut }

// Play sends each request at its time, to one gateway after another, and waits for all answers. A request whose
// gateway is killed is repeated at the next one.
func Play(ctx context.Context, gateways []*Node, all []Timed) []Played {
	played, began := make([]Played, len(all)), time.Now()
	var open sync.WaitGroup
	for i, q := range all {
		select {
		case <-ctx.Done():
		case <-time.After(time.Until(began.Add(q.At))):
		}
		open.Go(func() { played[i] = play(ctx, gateways, i, q) })
	}
	open.Wait()
	return played
}

// play sends a request until it is answered.
func play(ctx context.Context, gateways []*Node, number int, q Timed) (p Played) {
	for sent := time.Now(); ; number++ {
		gateway := gateways[number%len(gateways)]
		process := gateway.Process()
		begun := false
		p.Pause, p.Err = readStream(ctx, gateway, q.Request, q.Answer, func() {
			p.Last = time.Since(sent)
			if !begun {
				begun, p.First = true, p.Last
			}
		})
		p.Pause.Gateway = gateway.Name
		if p.Err == nil || !retryable(p.Err, process) || ctx.Err() != nil {
			return p
		}
		p.Retried++
		select {
		case <-ctx.Done():
			return p
		case <-time.After(pollInterval):
		}
	}
}
