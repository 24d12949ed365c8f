package deployment_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"troupe/actors/model/deployment"
	"troupe/actors/supervise"
	"troupe/core/hbm"
	"troupe/engine"
	"troupe/messages"
	"troupe/testkit"
)

// host is a node, played by the test: its replicas group and its one GPU.
type host struct {
	name     string
	group    *testkit.Peer
	gpu      *testkit.Peer
	mu       sync.Mutex
	replicas map[string]*testkit.Peer // name -> the replica
	specs    map[string]*messages.ReplicaSpec
	term     uint64 // the highest that was heard
	memory   uint64
	others   uint64 // that other models need
	stopped  []string
	starts   int
	frail    bool            // its replicas end as soon as they are started
	bad      bool            // they fail to load
	files    string          // the revision that they find; empty: they say nothing of it
	serve    map[string]bool // replicas that were confirmed
}

// stage is a cluster of hosts around one deployment.
type stage struct {
	t       *testing.T
	sys     *actor.ActorSystem
	hosts   map[string]*host
	router  *testkit.Peer
	mu      sync.Mutex
	members *messages.MembersChanged
	inspect error
	record  func(deploy uint64, weights, revision string) error // nil: it is stored
	pid     *actor.PID
}

const needed = 8 << 20 // bytes of a replica

func play(t *testing.T, hosts ...string) *stage {
	s := &stage{t: t, sys: testkit.System(t), hosts: make(map[string]*host), members: &messages.MembersChanged{}}
	s.router = testkit.NewPeer(t, s.sys, "router", nil)
	for _, name := range hosts {
		s.host(name)
	}
	return s
}

func (s *stage) host(name string) *host {
	h := &host{
		name: name, replicas: make(map[string]*testkit.Peer), specs: make(map[string]*messages.ReplicaSpec),
		serve: make(map[string]bool), memory: 100 << 20,
	}
	h.group = testkit.NewPeer(s.t, s.sys, "group-"+name, func(m proto.Message) proto.Message { return h.answer(s, m) })
	h.gpu = testkit.NewPeer(s.t, s.sys, "gpu-"+name, func(proto.Message) proto.Message {
		h.mu.Lock()
		defer h.mu.Unlock()
		s := &messages.GpuStatus{Node: name, Name: "gpu-0", MemoryBytes: h.memory, Budget: &messages.MemoryBudget{
			Fixed: h.others + uint64(len(h.replicas))*needed,
		}}
		for owner := range h.replicas {
			s.Budget.Replicas = append(s.Budget.Replicas, owner)
			s.Leases = append(s.Leases, &messages.GpuLease{Owner: owner, Kind: "weights", Bytes: needed, Pages: needed / hbm.PageBytes})
		}
		return s
	})
	s.hosts[name] = h
	s.join(name, name+".1")
	return h
}

// with reads or changes a host, which its actors do meanwhile.
func (h *host) with(f func(*host)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f(h)
}

// change changes who is in the cluster, and tells the deployment.
func (s *stage) change(f func(*messages.MembersChanged)) {
	s.mu.Lock()
	next := proto.CloneOf(s.members)
	f(next)
	s.members = next
	s.mu.Unlock()
	if s.pid != nil {
		s.router.Send(s.pid, next)
	}
}

func (s *stage) now() *messages.MembersChanged { s.mu.Lock(); defer s.mu.Unlock(); return s.members }

// join has a host join, or join again.
func (s *stage) join(name, id string) {
	s.change(func(m *messages.MembersChanged) {
		m.Members = append(m.Members, &messages.Member{Id: id, Name: name, State: messages.MemberState_MEMBER_STATE_UP, Gpus: []string{"gpu-0"}})
	})
}

// leave takes a host out of the cluster, as if it had died.
func (s *stage) leave(name string) {
	s.change(func(m *messages.MembersChanged) {
		m.Members = slices.DeleteFunc(m.Members, func(one *messages.Member) bool { return one.GetName() == name })
	})
}

// start starts a reign.
func (s *stage) start(term uint64, mw ...actor.ReceiverMiddleware) {
	s.pid = testkit.Spawn(s.t, s.sys, fmt.Sprint("reign-", term), supervise.Strategy(nil), deployment.Props(deployment.Config{
		Name: "m", Node: "a", Term: term, Members: s.now, Router: s.router.PID, Publish: func(string, string, string) {}, Log: zerolog.Nop(),
		Replicas: func(m *messages.Member) *actor.PID { return s.hosts[m.GetName()].group.PID },
		GPU:      func(m *messages.Member, _ string) *actor.PID { return s.hosts[m.GetName()].gpu.PID },
		Record: func(_ context.Context, _ string, deploy uint64, weights, revision string) error {
			if s.record == nil {
				return nil
			}
			return s.record(deploy, weights, revision)
		},
		Inspect: func(string) (engine.ModelInfo, error) {
			return engine.ModelInfo{WeightBytes: needed, KVTokenBytes: 0}, s.inspect
		},
	}), mw...)
}

// apply says how many replicas there are to be.
func (s *stage) apply(replicas uint32) {
	s.router.Send(s.pid, &messages.ApplyDeployment{Spec: &messages.DeploymentSpec{Name: "m", Path: "p", Replicas: new(uint32(replicas)), BlockTokens: new(uint32(16))}, Revision: 1})
	s.pass(10 * time.Second)
}

func (s *stage) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// has checks which replicas a host has.
func (s *stage) has(name string, want ...string) {
	s.t.Helper()
	h := s.hosts[name]
	h.mu.Lock()
	defer h.mu.Unlock()
	var got []string
	for r := range h.replicas {
		got = append(got, r)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		s.t.Errorf("%s has %q, want %q", name, got, want)
	}
}

// told is the deployment's last word to the router.
func (s *stage) told() *messages.DeploymentStatus {
	all := testkit.Got[*messages.RouteDeployment](s.router)
	if len(all) == 0 {
		return nil
	}
	return all[len(all)-1].GetStatus()
}

// answer is what a replicas group does.
func (h *host) answer(s *stage, m proto.Message) proto.Message {
	h.mu.Lock()
	defer h.mu.Unlock()
	term, ok := m.(interface{ GetTerm() uint64 })
	if ok && term.GetTerm() < h.term {
		return h.stale(m)
	}
	if ok {
		h.term = term.GetTerm()
	}
	switch m := m.(type) {
	case *messages.ListReplicas:
		list := &messages.ListReplicasResult{Node: h.name}
		for name := range h.replicas {
			list.Replicas = append(list.Replicas, h.started(name))
		}
		return list
	case *messages.StartReplica:
		name := m.GetReplica().GetName()
		if h.replicas[name] == nil {
			h.starts++
			h.specs[name] = m.GetReplica()
			h.replicas[name] = testkit.NewPeer(s.t, s.sys, fmt.Sprint(h.name, "-", name, "-", h.starts), func(q proto.Message) proto.Message { return h.replica(name, q) })
		}
		started := h.started(name)
		if h.frail {
			go h.replicas[name].Stop()
			delete(h.replicas, name)
		}
		return &messages.StartReplicaResult{RequestId: m.GetRequestId(), Outcome: &messages.StartReplicaResult_Started{Started: started}}
	case *messages.DrainReplica:
		return &messages.ReplicaDrained{Replica: m.GetReplica()}
	case *messages.StopReplica:
		if p := h.replicas[m.GetReplica()]; p != nil {
			delete(h.replicas, m.GetReplica())
			h.stopped = append(h.stopped, m.GetReplica())
			s.sys.Root.Poison(p.PID) // after what it was told before
		}
		return &messages.StopReplicaResult{RequestId: m.GetRequestId(), Outcome: &messages.StopReplicaResult_Stopped{Stopped: &messages.ReplicaStopped{Replica: m.GetReplica()}}}
	}
	return nil
}

func (h *host) stale(m proto.Message) proto.Message {
	refused := &messages.Refused{Reason: messages.Reason_REASON_STALE_TERM}
	switch m := m.(type) {
	case *messages.ListReplicas:
		return &messages.ListReplicasResult{Node: h.name, Refused: refused}
	case *messages.StopReplica:
		return &messages.StopReplicaResult{RequestId: m.GetRequestId(), Outcome: &messages.StopReplicaResult_Refused{Refused: refused}}
	case *messages.StartReplica:
		return &messages.StartReplicaResult{RequestId: m.GetRequestId(), Outcome: &messages.StartReplicaResult_Refused{Refused: refused}}
	}
	return nil
}

func (h *host) started(name string) *messages.ReplicaStarted {
	pid := h.replicas[name].PID
	return &messages.ReplicaStarted{Replica: name, Spec: h.specs[name], Actor: &messages.ActorRef{Address: pid.GetAddress(), Id: pid.GetId()}}
}

// replica is what a replica answers.
func (h *host) replica(name string, m proto.Message) proto.Message {
	if c, ok := m.(*messages.ConfirmRevision); ok {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.serve[name] = c.GetRevisionDigest() == h.files
		return nil
	}
	if _, ok := m.(*messages.GetReplica); !ok {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.replicas[name] == nil {
		return nil
	}
	pid, state := h.replicas[name].PID, messages.ReplicaState_REPLICA_STATE_SERVING
	if h.bad {
		state = messages.ReplicaState_REPLICA_STATE_FAILED
	}
	found, wanted := "", h.specs[name].GetRevisionDigest()
	switch {
	case h.files == "":
	case wanted != "" && wanted != h.files:
		state, found = messages.ReplicaState_REPLICA_STATE_FAILED, h.files
	case wanted == "" && !h.serve[name]:
		state = messages.ReplicaState_REPLICA_STATE_LOADING
	}
	digest := h.files
	if found != "" {
		digest = ""
	}
	return &messages.ReplicaStatus{
		Name: name, Model: "m", Node: h.name, Gpu: "gpu-0", State: state, WeightsDigest: digest, RevisionDigest: digest,
		FoundRevision: found,
		Actor:         &messages.ActorRef{Address: pid.GetAddress(), Id: pid.GetId()},
	}
}

var _ deployment.Leases = (*seats)(nil)

// seats are the leases of a test.
type seats struct {
	mu      sync.Mutex
	holders map[string]string
	terms   map[string]uint64
	last    uint64
	node    string // who acquires
}

func (l *seats) Holder(role string) (string, uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.holders[role], l.terms[role]
}

func (l *seats) Roles() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for role := range l.terms {
		all = append(all, role)
	}
	return all
}

func (l *seats) Acquire(_ context.Context, role string) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holders[role] == "" {
		l.give(role, l.node)
	}
	return l.holders[role] == l.node, nil
}

func (l *seats) give(role, node string) {
	l.last++
	l.holders[role], l.terms[role] = node, l.last
}

func (l *seats) Release(_ context.Context, role string, term uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.terms[role] == term {
		delete(l.holders, role)
		delete(l.terms, role)
	}
	return nil
}
