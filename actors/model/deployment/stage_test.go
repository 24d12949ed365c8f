package deployment_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"troupe/actors/model/deployment"
	"troupe/actors/supervise"
	"troupe/core/backend"
	"troupe/engine"
	"troupe/messages"
	"troupe/testkit"
)

// host plays a node: its replicas group and its one GPU.
type host struct {
	name        string
	group       *testkit.Peer
	gpu         *testkit.Peer
	mu          sync.Mutex
	replicas    map[string]*testkit.Peer // by name
	specs       map[string]*messages.ReplicaSpec
	term        uint64 // the highest received
	stopped     []string
	starts      int
	crashing    bool            // its replicas exit right after they start
	failsToLoad bool            // its replicas fail to load
	files       string          // the revision that its replicas find; empty: they report none
	confirmed   map[string]bool // replicas that received ConfirmRevision
}

// stage is one deployment in a cluster of played hosts.
type stage struct {
	t          *testing.T
	sys        *actor.ActorSystem
	hosts      map[string]*host
	router     *testkit.Peer
	mu         sync.Mutex
	members    *messages.MembersChanged
	inspect    error
	record     func(deploy uint64, weights, revision string) error // nil: succeeds
	storeLevel func() error
	woken      int             // wakes reported
	awake      []time.Duration // times reported from a wake to the first replica that serves
	revision   uint64          // of the stored spec
	sleeps     bool            // its minimum is 0
	level      messages.Level  // that is stored
	pid        *actor.PID
}

const needed = 8 << 20 // bytes per replica

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
		confirmed: make(map[string]bool),
	}
	h.group = testkit.NewPeer(s.t, s.sys, "group-"+name, func(m proto.Message) proto.Message {
		return h.answer(s, m)
	})
	h.gpu = testkit.NewPeer(s.t, s.sys, "gpu-"+name, func(proto.Message) proto.Message {
		return &messages.GpuStatus{Node: name, Name: "gpu-0"}
	})
	s.hosts[name] = h
	s.join(name, name+".1")
	return h
}

// with calls f with the host locked.
func (h *host) with(f func(*host)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f(h)
}

// change changes the members and notifies the deployment.
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

// join adds a host to the cluster, also one that left.
func (s *stage) join(name, id string) {
	s.change(func(m *messages.MembersChanged) {
		m.Members = append(m.Members, &messages.Member{Id: id, Name: name,
			State: messages.MemberState_MEMBER_STATE_UP, Gpus: []string{"gpu-0"}})
	})
}

// start starts the deployment of a term.
func (s *stage) start(term uint64, mw ...actor.ReceiverMiddleware) {
	s.pid = testkit.Spawn(s.t, s.sys, fmt.Sprint("term-", term), supervise.Strategy(nil),
		deployment.Props(deployment.Config{
			Name: "m", Node: "a", Term: term, Members: s.now, Router: s.router.PID,
			Publish: func(string, string, string) {}, Log: zerolog.Nop(),
			Replicas: func(m *messages.Member) *actor.PID { return s.hosts[m.GetName()].group.PID },
			GPU:      func(m *messages.Member, _ string) *actor.PID { return s.hosts[m.GetName()].gpu.PID },
			Record: func(_ context.Context, _ string, deploy uint64, weights, revision string) error {
				if s.record == nil {
					return nil
				}
				return s.record(deploy, weights, revision)
			},
			StoreLevel: func(context.Context, string, uint64, messages.Level, string) error {
				return s.storeLevel()
			},
			OnWake:  func(string) { s.woken++ },
			OnAwake: func(_ string, took time.Duration) { s.awake = append(s.awake, took) },
			Inspect: func(backend.Kind, string) (engine.ModelInfo, error) {
				return engine.ModelInfo{WeightBytes: needed, KVTokenBytes: 0}, s.inspect
			},
		}), mw...)
}

// apply stores a number of replicas, and assigns them to the hosts in turn.
func (s *stage) apply(replicas uint32) {
	all, hosts := []string{}, slices.Sorted(maps.Keys(s.hosts))
	for i := range int(replicas) {
		all = append(all, fmt.Sprintf("m-%d@%s/gpu-0", i, hosts[i%len(hosts)]))
	}
	s.plan(replicas, all)
}

// plan stores a number of replicas, and assignments of the form replica@node/gpu+gpu; nil: none yet.
func (s *stage) plan(replicas uint32, assigned []string, withdrawn ...string) {
	s.revision++
	spec := &messages.DeploymentSpec{
		Name: "m", Path: "p", BlockTokens: new(uint32(16)), Replicas: new(replicas), Level: s.level,
		Assignments: assignments(assigned, 1000),
	}
	if assigned != nil {
		spec.Assignments.Withdrawn = withdrawn
	}
	if s.sleeps {
		spec.MinReplicas, spec.MaxReplicas = new(uint32(0)), new(uint32(4))
	}
	s.router.Send(s.pid, &messages.ApplyDeployment{Revision: s.revision, Spec: spec})
	s.pass(10 * time.Second)
}

// assignments returns assignments that were made at a time in seconds.
func assignments(all []string, at int64) *messages.Assignments {
	if all == nil {
		return nil
	}
	m := &messages.Assignments{}
	for _, a := range all {
		name, to, _ := strings.Cut(a, "@")
		node, gpus, _ := strings.Cut(to, "/")
		m.Replicas = append(m.Replicas, &messages.Assignment{
			Replica: name, Node: node, Gpus: strings.Split(gpus, "+"), At: timestamppb.New(time.Unix(at, 0)),
		})
	}
	return m
}

func (s *stage) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// expectReplicas checks the replicas of a host.
func (s *stage) expectReplicas(name string, want ...string) {
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

// lastStatus returns the last status that the deployment sent to the router.
func (s *stage) lastStatus() *messages.DeploymentStatus {
	all := testkit.Got[*messages.RouteDeployment](s.router)
	if len(all) == 0 {
		return nil
	}
	return all[len(all)-1].GetStatus()
}

// answer answers a command as a replicas group does.
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
			h.replicas[name] = testkit.NewPeer(s.t, s.sys, fmt.Sprint(h.name, "-", name, "-", h.starts),
				func(q proto.Message) proto.Message { return h.replica(name, q) })
		}
		started := h.started(name)
		if h.crashing {
			go h.replicas[name].Stop()
			delete(h.replicas, name)
		}
		return &messages.StartReplicaResult{RequestId: m.GetRequestId(),
			Outcome: &messages.StartReplicaResult_Started{Started: started}}
	case *messages.DrainReplica:
		return &messages.ReplicaDrained{Replica: m.GetReplica()}
	case *messages.StopReplica:
		if p := h.replicas[m.GetReplica()]; p != nil {
			delete(h.replicas, m.GetReplica())
			h.stopped = append(h.stopped, m.GetReplica())
			s.sys.Root.Poison(p.PID) // handle earlier messages first
		}
		return &messages.StopReplicaResult{RequestId: m.GetRequestId(),
			Outcome: &messages.StopReplicaResult_Stopped{Stopped: &messages.ReplicaStopped{Replica: m.GetReplica()}}}
	}
	return nil
}

func (h *host) stale(m proto.Message) proto.Message {
	refused := &messages.Refused{Reason: messages.Reason_REASON_STALE_TERM, Term: h.term}
	switch m := m.(type) {
	case *messages.ListReplicas:
		return &messages.ListReplicasResult{Node: h.name, Refused: refused}
	case *messages.StopReplica:
		return &messages.StopReplicaResult{RequestId: m.GetRequestId(),
			Outcome: &messages.StopReplicaResult_Refused{Refused: refused}}
	case *messages.StartReplica:
		return &messages.StartReplicaResult{RequestId: m.GetRequestId(),
			Outcome: &messages.StartReplicaResult_Refused{Refused: refused}}
	}
	return nil
}

func (h *host) started(name string) *messages.ReplicaStarted {
	pid := h.replicas[name].PID
	return &messages.ReplicaStarted{Replica: name, Spec: h.specs[name],
		Actor: &messages.ActorRef{Address: pid.GetAddress(), Id: pid.GetId()}}
}

// replica answers a message as a replica does.
func (h *host) replica(name string, m proto.Message) proto.Message {
	if c, ok := m.(*messages.ConfirmRevision); ok {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.confirmed[name] = c.GetRevisionDigest() == h.files
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
	if h.failsToLoad {
		state = messages.ReplicaState_REPLICA_STATE_FAILED
	}
	found, wanted := "", h.specs[name].GetRevisionDigest()
	switch {
	case h.files == "":
	case wanted != "" && wanted != h.files:
		state, found = messages.ReplicaState_REPLICA_STATE_FAILED, h.files
	case wanted == "" && !h.confirmed[name]:
		state = messages.ReplicaState_REPLICA_STATE_LOADING
	}
	digest := h.files
	if found != "" {
		digest = ""
	}
	return &messages.ReplicaStatus{
		Name: name, Model: "m", Node: h.name, Gpu: "gpu-0", State: state, WeightsDigest: digest,
		RevisionDigest: digest,
		FoundRevision:  found,
		Actor:          &messages.ActorRef{Address: pid.GetAddress(), Id: pid.GetId()},
	}
}

var _ deployment.Leases = (*fakeLeases)(nil)

// fakeLeases implements deployment.Leases.
type fakeLeases struct {
	mu      sync.Mutex
	holders map[string]string
	terms   map[string]uint64
	last    uint64
	node    string // the member that acquires
}

func (l *fakeLeases) Holder(role string) (string, uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.holders[role], l.terms[role]
}

func (l *fakeLeases) Roles() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for role := range l.terms {
		all = append(all, role)
	}
	return all
}

func (l *fakeLeases) Acquire(_ context.Context, role string) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holders[role] == "" {
		l.assign(role, l.node)
	}
	return l.holders[role] == l.node, nil
}

func (l *fakeLeases) assign(role, node string) {
	l.last++
	l.holders[role], l.terms[role] = node, l.last
}

func (l *fakeLeases) Release(_ context.Context, role string, term uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.terms[role] == term {
		delete(l.holders, role)
		delete(l.terms, role)
	}
	return nil
}
