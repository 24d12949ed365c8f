package chaos

import (
	"fmt"
	"math/rand/v2"
	"time"

	"troupe/testkit/cluster"
)

// Step is a fault and how long it lasts.
type Step struct {
	cluster.Fault
	Replica int // of a fault of a replica: which of those there are then, in the order of their names
	Hold    time.Duration
}

func (s Step) String() string {
	if s.Hold == 0 {
		return s.Fault.String()
	}
	return fmt.Sprintf("%s, for %s", s.Fault, s.Hold)
}

// Holds that a fault lasts: shorter and longer than it takes to be noticed.
const (
	shortest = 200 * time.Millisecond
	longest  = 4 * time.Second
)

// schedule is the endless row of steps of a seed.
type schedule struct {
	random   *rand.Rand
	nodes    []string
	replicas int
	deck     []cluster.Kind // kinds still to come in this round: each once, in random order
	kinds    []cluster.Kind
}

func newSchedule(seed uint64, nodes []string, replicas int, kinds []cluster.Kind) *schedule {
	return &schedule{random: rand.New(rand.NewPCG(seed, 1)), nodes: nodes, replicas: replicas, kinds: kinds}
}

// next returns the next step. Every kind comes before any comes again.
func (s *schedule) next() Step {
	if len(s.deck) == 0 {
		for _, i := range s.random.Perm(len(s.kinds)) {
			s.deck = append(s.deck, s.kinds[i])
		}
	}
	step := Step{Fault: cluster.Fault{Kind: s.deck[0]}}
	s.deck = s.deck[1:]
	two := s.random.Perm(len(s.nodes)) // drawn always, so that a step depends on no other's kind
	replica := s.random.IntN(s.replicas)
	hold := (shortest + time.Duration(s.random.Int64N(int64(longest-shortest)))).Round(10 * time.Millisecond)
	switch step.Kind {
	case cluster.CrashReplica, cluster.Migrate:
		step.Replica = replica
		return step
	case cluster.Restart:
		step.On = s.nodes[two[0]]
		return step
	case cluster.Cut, cluster.CutOneWay:
		step.On, step.Other = s.nodes[two[0]], s.nodes[two[1]]
	case cluster.KillNATS:
	default:
		step.On = s.nodes[two[0]]
	}
	step.Hold = hold
	return step
}
