package chaos

import (
	"fmt"
	"math/rand/v2"
	"time"

	"troupe/testkit/cluster"
)

// Step is a fault and its duration.
type Step struct {
	cluster.Fault
	Replica int // for a fault of a replica: its index among the current replicas, sorted by name
	Hold    time.Duration
}

func (s Step) String() string {
	if s.Hold == 0 {
		return s.Fault.String()
	}
	return fmt.Sprintf("%s, for %s", s.Fault, s.Hold)
}

// Bounds of a fault's duration: shorter and longer than its detection takes.
const (
	shortest = 200 * time.Millisecond
	longest  = 4 * time.Second
)

// schedule is the endless sequence of steps of a seed.
type schedule struct {
	random   *rand.Rand
	nodes    []string
	replicas int
	deck     []cluster.Kind // remaining kinds of this round, each once, in random order
	kinds    []cluster.Kind
}

func newSchedule(seed uint64, nodes []string, replicas int, kinds []cluster.Kind) *schedule {
	return &schedule{random: rand.New(rand.NewPCG(seed, 1)), nodes: nodes, replicas: replicas, kinds: kinds}
}

// next returns the next step. Every kind occurs once per round.
func (s *schedule) next() Step {
	if len(s.deck) == 0 {
		for _, i := range s.random.Perm(len(s.kinds)) {
			s.deck = append(s.deck, s.kinds[i])
		}
	}
	step := Step{Fault: cluster.Fault{Kind: s.deck[0]}}
	s.deck = s.deck[1:]
	two := s.random.Perm(len(s.nodes)) // always drawn, so that a step does not depend on the kinds of others
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
