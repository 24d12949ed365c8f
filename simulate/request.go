package simulate

import (
	"time"

	"troupe/core/session"
	"troupe/workload"
)

// request is a request and what its session knows of it.
type request struct {
	id             string
	number         uint32
	model          *model
	client         string
	adapter        string
	tokens         []uint32 // of the prompt
	prompt, output int      // tokens
	at, first      time.Time

	machine *session.Machine
	replica *replica         // that has it; nil: none
	emitted int              // tokens of the output that the session has
	refusal string           // the last one
	waits   int              // answers of the router that it waits
	timer   session.SetTimer // that is not an event of the queue; zero: none
	due     time.Time        // of the timer
}

// unique marks tokens that belong to one request alone.
const unique = 1 << 31

// token returns the token of which the request consists, apart from the blocks that it shares.
func (q *request) token() uint32 { return unique | q.number }

// promptOf returns the tokens of a prompt. Blocks with the same hash have the same tokens.
func promptOf(r workload.Request, number uint32) []uint32 {
	tokens := make([]uint32, max(1, r.Prompt))
	shared := min(len(tokens), len(r.Prefix)*r.PrefixBlock)
	for i := range shared {
		h := r.Prefix[i/r.PrefixBlock]
		tokens[i] = uint32(h>>(32*(i&1))) &^ unique
	}
	for i := shared; i < len(tokens); i++ {
		tokens[i] = unique | number
	}
	return tokens
}

// finished counts a request that has all its output.
func (q *request) finished(r *replica, now time.Time) {
	m := q.model
	ttft, tpot := q.first.Sub(q.at), time.Duration(0)
	m.ttft = append(m.ttft, ttft)
	if q.emitted > 1 {
		tpot = now.Sub(q.first) / time.Duration(q.emitted-1)
		m.tpot = append(m.tpot, tpot)
	}
	m.window.Finished(now, q.prompt, q.emitted, now.Sub(q.first))
	m.finished++
	m.outputTokens += q.emitted
	met := m.SLO.met(ttft, tpot)
	if met {
		m.met++
	}
	m.sim.series.ended(m, met, now)
	q.perform(q.machine.Emitted(session.Tokens{From: r.session(), Count: q.emitted, Finished: true}, now))
	m.sim.record.finish(now, r, q.id, q)
	m.sim.ended(q)
}
