package batch

import (
	"slices"
	"time"
)

// Clients share a replica by virtual token counters (Sheng et al., "Fairness in Serving Large Language Models", OSDI
// 2024): each client has a counter per class of the tokens computed for it, divided by its weight. Within a class the
// client with the lowest counter is served first, and each client's own sequences in the order of arrival.

// What a token adds to the counter of its client: an output token costs a pass over all weights, which the tokens of a
// prompt share.
const (
	promptCost = 1
	outputCost = 2
)

// maxIdle bounds the counters kept of clients that have no sequence here.
const maxIdle = 1024

// account is the counter of one client in one class.
type account struct {
	weight    float64
	served    float64 // virtual tokens
	sequences int     // that the scheduler knows
	step      uint64  // the last one that had tokens of the client
}

type accountKey struct {
	class  Class
	client string
}

// presence is how many sequences of a client the scheduler knows, in all classes.
type presence struct {
	sequences int
	weight    float64
}

// shares are the counters of all clients.
type shares struct {
	clients  map[string]presence // that have sequences here
	accounts map[accountKey]*account
	level    map[Class]float64 // the highest counter that was served from the queue: where a client that is new begins
	steps    uint64            // planned

	mixed     bool // several clients were here at contended
	contended time.Time
	latest    *string // the client that was last here alone

	perToken time.Duration // of steps with prompts; 0: not known
}

func newShares() shares {
	return shares{clients: make(map[string]presence), accounts: make(map[accountKey]*account), level: make(map[Class]float64)}
}

// join counts a new sequence to its client. A client with nothing in the queue starts at the lowest counter among those
// that wait: a share that was not used is not saved up.
func (s *Scheduler) join(r Request) *account {
	key := accountKey{r.Class, r.Client}
	a := s.shares.accounts[key]
	if a == nil {
		a = &account{step: s.shares.steps}
		s.shares.accounts[key] = a
	}
	a.weight = r.weight()
	a.served = max(a.served, s.start(r.Class, a))
	a.sequences++
	s.shares.clients[r.Client] = presence{s.shares.clients[r.Client].sequences + 1, a.weight}
	return a
}

// start returns the counter that a client starts with in a class.
func (s *Scheduler) start(class Class, a *account) float64 {
	least, waits := 0.0, false
	for _, seq := range s.waiting {
		switch {
		case seq.Class != class:
		case seq.account == a:
			return a.served // it waits already
		case !waits || seq.account.served < least:
			least, waits = seq.account.served, true
		}
	}
	if !waits {
		return max(s.shares.level[class], s.leastRunning(class, a))
	}
	return least
}

// leastRunning returns the lowest counter of the other clients that have running sequences in a
// class.
func (s *Scheduler) leastRunning(class Class, a *account) (least float64) {
	found := false
	for _, seq := range s.running {
		if seq.Class == class && seq.account != a && (!found || seq.account.served < least) {
			least, found = seq.account.served, true
		}
	}
	return least
}

// leave counts a sequence out. Counters that no longer matter are dropped with the last sequence of a client.
func (s *Scheduler) leave(seq *sequence) {
	if c := s.shares.clients[seq.Client]; c.sequences > 1 {
		s.shares.clients[seq.Client] = presence{c.sequences - 1, c.weight}
	} else {
		delete(s.shares.clients, seq.Client)
	}
	if seq.account.sequences--; seq.account.sequences > 0 {
		return
	}
	level, idle, busy := s.shares.level[seq.Class], 0, false
	for key, a := range s.shares.accounts {
		switch {
		case key.class != seq.Class:
		case a.sequences > 0:
			busy = true
		case a.served <= level:
			delete(s.shares.accounts, key)
		default:
			idle++
		}
	}
	if busy && idle <= maxIdle {
		return
	}
	for key, a := range s.shares.accounts {
		if key.class == seq.Class && a.sequences == 0 {
			delete(s.shares.accounts, key)
		}
	}
	if !busy {
		delete(s.shares.level, seq.Class)
	}
}

// charge adds n tokens of an entry to the counter of its client; n is negative where the entry is taken back.
func (s *sequence) charge(position, n int) {
	cost := float64(promptCost)
	if position >= len(s.Prompt) {
		cost = outputCost
	}
	s.account.served += cost * float64(n) / s.account.weight
}

// ahead is the order of service at this moment: by class, then by client, then by arrival.
func (s *sequence) ahead(t *sequence) bool {
	switch {
	case s.Class != t.Class:
		return s.Class > t.Class
	case s.account.before(t.account):
		return true
	case t.account.before(s.account):
		return false
	}
	return s.arrival < t.arrival
}

// before is the order of clients in a class: by what they were given, then by how long ago, then by
// their sequences. So a new client, which starts level with another, is served before one with more
// sequences, unless that one missed a step.
func (a *account) before(b *account) bool {
	switch {
	case a.served != b.served:
		return a.served < b.served
	case a.step != b.step:
		return a.step < b.step
	}
	return a.part() < b.part()
}

// part is the number of a client's sequences by weight.
func (a *account) part() float64 { return float64(a.sequences) / a.weight }

// next returns the waiting sequence that is served next; nil: none waits.
func (s *Scheduler) next() *sequence {
	var first *sequence
	for _, seq := range s.waiting {
		if first != nil && first.Class != seq.Class {
			break
		}
		if first == nil || seq.ahead(first) {
			first = seq
		}
	}
	return first
}

// weight is what the counter of a request's client is divided by.
func (r Request) weight() float64 {
	if r.Weight > 0 {
		return r.Weight
	}
	return 1
}

// rounds returns the round of each waiting sequence: how many steps' tokens later its client's counter gets to it than the
// lowest counter of the class. Within a round the order may depend on something else, such as which adapters are on the
// device. All sequences are in round 0 where only one client waits.
func (s *Scheduler) rounds() []int {
	rounds, tags, behind := make([]int, len(s.waiting)), make([]float64, len(s.waiting)), make(map[*account]float64)
	least := make(map[Class]float64)
	clients := make(map[Class]*account)
	mixed := make(map[Class]bool)
	for i, seq := range s.waiting {
		a := seq.account
		tags[i] = a.served + behind[a]
		behind[a] += float64(max(len(seq.tokens), s.limits.StepTokens/roundSequences)) / a.weight
		if other, ok := clients[seq.Class]; !ok {
			clients[seq.Class], least[seq.Class] = a, tags[i]
		} else {
			mixed[seq.Class] = mixed[seq.Class] || other != a
			least[seq.Class] = min(least[seq.Class], tags[i])
		}
	}
	for i, seq := range s.waiting {
		if mixed[seq.Class] {
			rounds[i] = int((tags[i] - least[seq.Class]) / float64(s.limits.StepTokens))
		}
	}
	return rounds
}

// roundSequences is how many short sequences of one client are in a round.
const roundSequences = 4

// Surplus returns the waiting sequence that gives its place in a full queue to r: the newest of the client with the most
// sequences here by weight, where the client of r has fewer. Drop it, then submit r again. Empty: there is none.
func (s *Scheduler) Surplus(r Request) (id string) {
	most, client := float64(s.shares.clients[r.Client].sequences+1)/r.weight(), ""
	for name, c := range s.shares.clients {
		if part := float64(c.sequences-1) / c.weight; name != r.Client && (part > most || part == most && (client == "" || name < client)) {
			most, client = part, name
		}
	}
	if client == "" {
		return ""
	}
	for _, seq := range slices.Backward(s.waiting) {
		if seq.Client == client && seq.state == Waiting && !seq.admitted && len(seq.output()) == 0 {
			return seq.ID
		}
	}
	return ""
}
