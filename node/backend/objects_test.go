package backend

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"troupe/actors/supervise"
	"troupe/cluster/members"
	"troupe/cluster/natsd"
	"troupe/cluster/store"
	"troupe/control"
	"troupe/control/catalogue"
	"troupe/core/lora"
	"troupe/engine"
	"troupe/gateway"
	"troupe/gateway/apikey"
	"troupe/messages"
	"troupe/node/availability"
	"troupe/node/metrics"
	"troupe/node/query"
	"troupe/node/stored"
	"troupe/node/tiers"
)

func refused(err error) bool { return errors.As(err, &control.Refusal{}) }

// TestReplicaControl checks a restart, and the errors for unknown replicas and requests.
func TestReplicaControl(t *testing.T) {
	view := &messages.ClusterView{}
	sys := system(t, map[string]func(any) proto.Message{
		query.Router: cluster(view),
		query.Replicas: func(asked any) proto.Message {
			if r, ok := asked.(*messages.RestartReplica); ok && r.GetReplica() == "m-0" {
				return &messages.RestartReplicaResult{}
			}
			return nil
		},
	})
	view.Replicas = []*messages.ReplicaStatus{{Name: "m-0", Actor: &messages.ActorRef{Address: sys.Address(), Id: "x"}}}
	r := &ReplicaControl{System: sys, Members: one(sys),
		Deployments: func(context.Context) ([]*messages.DeploymentStatus, error) { return nil, nil }}
	if err := r.RestartReplica(t.Context(), "m-0"); err != nil {
		t.Error(err)
	}
	if err := r.RestartReplica(t.Context(), "m-1"); !refused(err) {
		t.Errorf("an unknown replica: %v", err)
	}
	if _, err := r.Migrate(t.Context(), &messages.MigrateReplicaRequest{From: "m-0", To: "m-1"}); !refused(err) {
		t.Errorf("no deployment: %v", err)
	}
	if e, err := r.Explain(t.Context(), "7"); err != nil || len(e.GetDecisions()) != 1 {
		t.Error(e, err)
	}
	r.Members = func() []*messages.Member { return nil }
	if _, err := r.Explain(t.Context(), "7"); !refused(err) {
		t.Errorf("no router knows the request: %v", err)
	}
}

// TestGPUControl checks that a command reaches its GPU, and that an unknown GPU is refused.
func TestGPUControl(t *testing.T) {
	sys := system(t, map[string]func(any) proto.Message{query.GPU("gpu-0"): func(asked any) proto.Message {
		switch m := asked.(type) {
		case *messages.QuarantineGpu:
			return &messages.QuarantineGpuResult{Outcome: &messages.QuarantineGpuResult_Quarantined{
				Quarantined: &messages.GpuStatus{Name: m.GetDetail()},
			}}
		case *messages.ReleaseGpu:
			return &messages.ReleaseGpuResult{Outcome: &messages.ReleaseGpuResult_Refused{Refused: &messages.Refused{}}}
		}
		return nil
	}})
	g := &GPUControl{System: sys, Members: one(sys)}
	s, err := g.QuarantineGpu(t.Context(), &messages.QuarantineGpuRequest{Node: "a", Name: "gpu-0", Detail: "hot"})
	if err != nil || s.GetName() != "hot" {
		t.Error(s, err)
	}
	if _, err := g.ReleaseGpu(t.Context(), &messages.ReleaseGpuRequest{Node: "a", Name: "gpu-0"}); !refused(err) {
		t.Errorf("a refused release: %v", err)
	}
	if _, err := g.ReleaseGpu(t.Context(), &messages.ReleaseGpuRequest{Node: "a", Name: "gpu-1"}); !refused(err) {
		t.Errorf("an unknown GPU: %v", err)
	}
}

// TestKeyControl checks the usage of keys, and that a node without a keys file has no keys.
func TestKeyControl(t *testing.T) {
	if all, err := (&KeyControl{}).Keys(t.Context()); all != nil || err != nil {
		t.Error(all, err)
	}
	file := filepath.Join(t.TempDir(), "keys")
	lines := "keys:\n"
	for _, name := range []string{"alice", "bob"} {
		_, line, err := apikey.Generate(name, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		lines += line + "\n"
	}
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := apikey.Open(file, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	k := &KeyControl{File: keys, System: system(t, map[string]func(any) proto.Message{
		query.Usage: func(any) proto.Message {
			return &messages.UsageStatus{Clients: []*messages.ClientUsage{
				{Client: gateway.KeyClientName("alice"), RequestsLeft: 7},
			}}
		},
	})}
	all, err := k.Keys(t.Context())
	if err != nil || len(all) != 2 || all[0].GetUsage().GetRequestsLeft() != 7 ||
		all[1].GetUsage().GetRequestsLeft() != 0 {
		t.Error(all, err)
	}
}

// registry is a registry with one live member, and one that left.
type registry struct{ live func() []*messages.Member }

func (r registry) Live() []*messages.Member { return r.live() }

func (r registry) Self() *messages.Member { return r.live()[0] }

func (registry) LastSeen(node string) (time.Time, bool) { return time.Unix(5, 0), node == "b" }

func (registry) Departed() []members.Departed {
	return []members.Departed{{Member: &messages.Member{Name: "b"}, LastSeen: time.Unix(5, 0)}}
}

func (registry) RenewalsFailingSince() (time.Time, bool) { return time.Time{}, false }

func (registry) BucketLost() bool { return false }

// offline is a node that is not connected to NATS.
type offline struct{}

func (offline) Conn() *nats.Conn         { return &nats.Conn{} }
func (offline) Disk() (natsd.Disk, bool) { return natsd.Disk{}, false }
func (offline) Quorum() (int, int, int)  { return 0, 0, 0 }

// nodeStore records which node is drained.
type nodeStore struct{ drained string }

func (s *nodeStore) PutNode(_ context.Context, spec *messages.NodeSpec) error {
	s.drained = spec.GetName()
	return nil
}

func (s *nodeStore) Node(_ context.Context, name string) (*messages.NodeSpec, error) {
	return &messages.NodeSpec{Name: name, Draining: name == s.drained}, nil
}

// TestNodeControl checks the status of a node, and which nodes can be drained.
func TestNodeControl(t *testing.T) {
	sys := system(t, map[string]func(any) proto.Message{
		query.Router: cluster(&messages.ClusterView{Replicas: []*messages.ReplicaStatus{
			{Node: "a", Running: 2, Waiting: 1}, {Node: "b", Running: 5},
		}}),
		query.GPU("gpu-0"): func(any) proto.Message { return &messages.GpuStatus{Name: "gpu-0"} },
	})
	members := registry{one(sys)}
	n := &NodeControl{
		Status:   &Status{Node: "a", System: sys, GPUs: []string{"gpu-0"}},
		Registry: members, Drained: &stored.Drained{}, Store: &nodeStore{drained: "c"},
		Availability: &availability.Store{
			Server: offline{}, Members: members, Lost: func() bool { return false }, Runtime: supervise.System,
		},
		Sessions: func() int { return 3 },
	}
	s, err := n.NodeStatus(t.Context())
	if err != nil || s.GetReplicas() != 1 || s.GetRunning() != 2 || s.GetSessions() != 3 || len(s.GetGpus()) != 1 {
		t.Error(s, err)
	}
	for _, name := range []string{"c", "a"} { // c is down, but marked as drained
		if _, err := n.DrainNode(t.Context(), name, true); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := n.DrainNode(t.Context(), "d", true); !refused(err) {
		t.Errorf("a node that is not in the cluster: %v", err)
	}
	if d := n.Departed(); len(d) != 1 || n.LastSeen("b").GetSeconds() != 5 || n.LastSeen("x") != nil {
		t.Error(d)
	}
	if p := n.StoreProblem(); p.GetReason() != messages.Reason_REASON_NO_QUORUM {
		t.Error(p)
	}
}

// TestAdapterControl checks that an adapter is registered against its base model, pinned and
// deleted.
func TestAdapterControl(t *testing.T) {
	d, e := &deployed{spec: &messages.DeploymentSpec{Name: "m", Path: "/m"}}, events{}
	known := catalogue.New()
	a := &AdapterControl{
		Store: d, Catalogue: known, Publish: e.publish, Runtime: supervise.System,
		Open: func(base, path string) (engine.AdapterFile, error) {
			if filepath.Base(path) != "psalms" || base != "/m" {
				return engine.AdapterFile{}, errors.New("no adapter")
			}
			return engine.AdapterFile{Rank: 4, Base: "m", Layout: &lora.Layout{}}, nil
		},
		Cluster: func(context.Context) (*messages.ClusterView, error) { return &messages.ClusterView{}, nil },
	}
	request := func(model, name string) *messages.RegisterAdapterRequest {
		return &messages.RegisterAdapterRequest{
			Adapter: &messages.AdapterSpec{Model: model, Name: name, Path: "/" + name}, AnyBase: true,
		}
	}
	for _, wrong := range []*messages.RegisterAdapterRequest{
		request("none", "psalms"), request("m", "proverbs"), request("m", "m"), {},
	} {
		if _, err := a.RegisterAdapter(t.Context(), wrong); !refused(err) {
			t.Errorf("%v: %v", wrong, err)
		}
	}
	seen := store.AdapterChange{Model: "m", Name: "psalms", At: 1,
		Spec: &messages.AdapterSpec{Model: "m", Name: "psalms", Revision: 1}}
	known.Apply(seen)
	known.Apply(store.AdapterChange{Synced: true})
	s, err := a.RegisterAdapter(t.Context(), request("m", "psalms"))
	if err != nil || s.GetRank() != 4 || s.GetRevision() != 1 {
		t.Fatal(s, err)
	}
	if all := a.Adapters(""); len(all) != 1 {
		t.Error(all)
	}
	if _, err := a.AdapterStats(t.Context(), "m"); err != nil {
		t.Error(err)
	}
	if s, err = a.PinAdapter(t.Context(), "psalms", false); err != nil || s.GetPinned() {
		t.Error(s, err)
	}
	soon, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := a.DeleteAdapter(soon, "psalms"); !refused(err) || d.adapter != nil {
		t.Errorf("a catalogue that does not see the change: %v", err)
	}
}

// TestKVControl checks the commands for a node without replicas and with one tier.
func TestKVControl(t *testing.T) {
	sys := system(t, map[string]func(any) proto.Message{
		query.Router: cluster(&messages.ClusterView{}),
		query.Tier("dram"): func(asked any) proto.Message {
			switch asked.(type) {
			case *messages.GetSlots:
				return &messages.SlotsStatus{Name: "dram", Free: 3}
			case *messages.FlushBlocks:
				return &messages.BlocksMoved{Outcome: &messages.BlocksMoved_Moved{Moved: &messages.KvMoved{Blocks: 2}}}
			}
			return nil
		},
	})
	k := &KVControl{
		Status: &Status{Node: "a", System: sys, Lower: []string{"dram"}, NoRemote: true},
		Lower:  &tiers.Tiers{Lower: []tiers.Lower{{Name: "dram"}}},
		Copies: metrics.NewCopies(prometheus.NewRegistry()), Prefixes: prefixes(t),
	}
	res, err := k.KV(t.Context(), &messages.KvNodeRequest{What: &messages.KvNodeRequest_Flush{
		Flush: &messages.KvFlushRequest{},
	}})
	if err != nil || len(res.GetMoved()) != 1 || res.GetMoved()[0].GetNode() != "a" {
		t.Error(res, err)
	}
	if all, err := k.Status.Tiers(t.Context()); err != nil || all[0].GetFree() != 3 {
		t.Error(all, err)
	}
	if s, err := k.Status.Remote(t.Context()); s != nil || err != nil {
		t.Error(s, err)
	}
	if _, err := k.KV(t.Context(), &messages.KvNodeRequest{}); !refused(err) {
		t.Error(err)
	}
	if len(k.Pins()) != 0 {
		t.Error(k.Pins())
	}
}
