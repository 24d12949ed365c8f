package batch

import (
	"slices"
	"time"
)

// Clients share a replica by virtual token counters (Sheng et al., "Fairness in Serving Large
// Language Models", OSDI 2024). Each client has, per class, a counter of the tokens computed for
// it, divided by its weight. Within a class the client with the lowest counter is served first, and
// each client's own sequences in order of arrival.

// These costs are what a token adds to its client's counter. An output token costs a pass over all
// weights, which the tokens of a prompt share.
const (
	promptCost = 1
	outputCost = 2
)

// maxIdle limits the counters kept for clients without sequences.
const maxIdle = 1024

// account is the counter of one client in one class.
type account struct {
	weight    float64
	served    float64 // virtual tokens
	sequences int     // known to the scheduler
	lastStep  uint64  // last step that had tokens of the client
}

type accountKey struct {
	class  Class
	client string
}

// clientLoad is the number of a client's sequences, in all classes.
type clientLoad struct {
	sequences int
	weight    float64
}

// shares are the counters of all clients.
type shares struct {
	clients    map[string]clientLoad // clients with sequences
	accounts   map[accountKey]*account
	startLevel map[Class]float64 // highest counter served from the queue; a new client starts there
	steps      uint64            // steps planned

	severalRecently bool // several clients were present at severalAt
	severalAt       time.Time
	lastAlone       *string // the client that was last present alone

	perToken time.Duration // in steps with prompts; 0: unknown
}

func newShares() shares {
	return shares{clients: make(map[string]clientLoad), accounts: make(map[accountKey]*account),
		startLevel: make(map[Class]float64)}
}

// join counts a new sequence for its client. A client with nothing in the queue starts at the
// lowest counter of those that wait, so that an unused share does not accumulate.
func (s *Scheduler) join(r Request) *account {
	key := accountKey{r.Class, r.Client}
	a := s.shares.accounts[key]
	if a == nil {
		a = &account{lastStep: s.shares.steps}
		s.shares.accounts[key] = a
	}
	a.weight = r.weight()
	a.served = max(a.served, s.start(r.Class, a))
	a.sequences++
	s.shares.clients[r.Client] = clientLoad{s.shares.clients[r.Client].sequences + 1, a.weight}
	return a
}

// start returns the counter at which a client starts in a class.
func (s *Scheduler) start(class Class, a *account) float64 {
	least, waits := 0.0, false
	for _, seq := range s.waiting {
		switch {
		case seq.Class != class:
		case seq.account == a:
			return a.served // already in the queue
		case !waits || seq.account.served < least:
			least, waits = seq.account.served, true
		}
	}
	if !waits {
		return max(s.shares.startLevel[class], s.leastRunning(class, a))
	}
	return least
}

// leastRunning returns the lowest counter of the other clients with running sequences in a class.
func (s *Scheduler) leastRunning(class Class, a *account) (least float64) {
	found := false
	for _, seq := range s.running {
		if seq.Class == class && seq.account != a && (!found || seq.account.served < least) {
			least, found = seq.account.served, true
		}
	}
	return least
}

// leave removes a sequence from its client's account. It deletes counters that no longer matter
// with the client's last sequence.
func (s *Scheduler) leave(seq *sequence) {
	if c := s.shares.clients[seq.Client]; c.sequences > 1 {
		s.shares.clients[seq.Client] = clientLoad{c.sequences - 1, c.weight}
	} else {
		delete(s.shares.clients, seq.Client)
	}
	if seq.account.sequences--; seq.account.sequences > 0 {
		return
	}
	level, idle, busy := s.shares.startLevel[seq.Class], 0, false
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
		delete(s.shares.startLevel, seq.Class)
	}
}

// charge adds n tokens of an entry to the counter of its client; a negative n takes the entry back.
func (s *sequence) charge(position, n int) {
	cost := float64(promptCost)
	if position >= len(s.Prompt) {
		cost = outputCost
	}
	s.account.served += cost * float64(n) / s.account.weight
}

// servedBefore reports whether s is served before t at this moment: by class, then client, then
// arrival.
func (s *sequence) servedBefore(t *sequence) bool {
	switch {
	case s.Class != t.Class:
		return s.Class > t.Class
	case s.account.before(t.account):
		return true
	case t.account.before(s.account):
		return false
	}
	return s.older(t)
}

// before orders the clients of a class: by counter, then by the last step with their tokens, then
// by load. A new client has the same counter as the client served next. It is thus served before
// clients with more sequences, unless such a client was not in the last step.
func (a *account) before(b *account) bool {
	switch {
	case a.served != b.served:
		return a.served < b.served
	case a.lastStep != b.lastStep:
		return a.lastStep < b.lastStep
	}
	return a.load() < b.load()
}

// load returns the number of a client's sequences divided by its weight.
func (a *account) load() float64 { return float64(a.sequences) / a.weight }

// nextWaiting returns the waiting sequence that is served next; nil if none waits.
func (s *Scheduler) nextWaiting() *sequence {
	var first *sequence
	for _, seq := range s.waiting {
		if first != nil && first.Class != seq.Class {
			break
		}
		if first == nil || seq.servedBefore(first) {
			first = seq
		}
	}
	return first
}

// weight returns the client's weight, by which its counter is divided.
func (r Request) weight() float64 {
	if r.Weight > 0 {
		return r.Weight
	}
	return 1
}

// rounds returns the round of each waiting sequence: the distance of its client's counter, when its
// turn comes, from the lowest counter of the class, in steps. Within a round the order may depend
// on other criteria, such as which adapters are on the device. All sequences are in round 0 if only
// one client waits.
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

// roundSequences is the number of short sequences of one client per round.
const roundSequences = 4

// QueueVictim returns the waiting sequence to drop from a full queue for r: the newest of the
// client with the most sequences relative to its weight, if r's client has fewer. Drop it, then
// submit r again. It returns "" if there is none.
func (s *Scheduler) QueueVictim(r Request) (id string) {
	most, client := float64(s.shares.clients[r.Client].sequences+1)/r.weight(), ""
	for name, c := range s.shares.clients {
		if load := float64(c.sequences-1) / c.weight; name != r.Client &&
			(load > most || load == most && (client == "" || name < client)) {
			most, client = load, name
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
