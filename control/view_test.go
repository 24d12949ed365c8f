package control_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"troupe/cluster/natsd"
	"troupe/control"
	"troupe/messages"
	"troupe/observe/tree"
	"troupe/testkit"
)

// node is the backend of one node of a cluster of four: a and b answer, c hangs, d is not
// connected.
type node struct {
	control.Backend
	name     string
	sessions int
}

func (n node) Members() []*messages.Member {
	return []*messages.Member{{Name: "d", Gpus: []string{"gpu-0", "gpu-1"}}, {Name: "b"}, {Name: "a"}, {Name: "c"}}
}

func (n node) NodeStatus(context.Context) (*messages.NodeStatus, error) {
	return &messages.NodeStatus{
		Member: &messages.Member{Name: n.name},
		Gpus:   []*messages.GpuStatus{{Name: "gpu-0", Node: n.name}},
	}, nil
}

func (n node) DrainNode(_ context.Context, name string, _ bool) (*messages.NodeStatus, error) {
	return &messages.NodeStatus{Member: &messages.Member{Name: name}, Detail: "decided"}, nil
}

func (n node) Departed() []*messages.NodeStatus {
	gone := &messages.Member{Name: "b1", Gpus: []string{"gpu-0"}, State: messages.MemberState_MEMBER_STATE_LOST}
	return []*messages.NodeStatus{{Member: gone, Unreachable: "lost"}}
}

func (n node) LastSeen(name string) *timestamppb.Timestamp {
	return &timestamppb.Timestamp{Seconds: int64(name[0])}
}

func (n node) StoreProblem() *messages.Refused { return nil }

func (n node) Pins() []*messages.PinnedPrefix {
	return []*messages.PinnedPrefix{{Name: "p", Tokens: []uint32{1, 2}}}
}

func (n node) KV(_ context.Context, req *messages.KvNodeRequest) (*messages.KvNodeResponse, error) {
	if req.GetFlush() != nil {
		return &messages.KvNodeResponse{
			Moved: []*messages.KvMoved{{Node: n.name, Tier: req.GetFlush().GetTier(), Blocks: 3}},
		}, nil
	}
	return &messages.KvNodeResponse{Node: &messages.KvNode{Node: n.name}}, nil
}

// longName is so long that the tree of a few thousand sessions exceeds the size of a message.
var longName = "session-" + strings.Repeat("1", 512)

func (n node) Tree() []*messages.ActorNode {
	gateway := &messages.ActorNode{Name: "gateway", Id: "node/gateway"}
	for range n.sessions {
		gateway.Children = append(gateway.Children, &messages.ActorNode{Name: longName, Kind: "session"})
	}
	return []*messages.ActorNode{{Name: "node", Id: "node", Children: []*messages.ActorNode{gateway}}}
}

func (n node) Weights(context.Context) map[string][]*messages.GpuWeights { return nil }

func (n node) Faults(context.Context) map[string]*messages.ReplicaFault { return nil }

// cluster starts the control services of a and b and returns a connection to their NATS server,
// which is a real one.
func cluster(t *testing.T) (*nats.Conn, *askers) {
	t.Helper()
	server, err := natsd.Start(
		t.Context(),
		natsd.Config{Listen: "127.0.0.1:0", StoreDir: t.TempDir(), Name: "test", Log: zerolog.Nop()},
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	conn, err := server.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	asking := newAskers(t, conn)
	sys := actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }),
	)
	for name, sessions := range map[string]int{"a": 10, "b": 3000} {
		pid, err := sys.Root.SpawnNamed(control.Props(control.Config{
			Conn: conn, Backend: node{name: name, sessions: sessions}, Version: "0.0.0", Node: name, Log: zerolog.Nop(),
			Runtime: asking.runtime(),
		}), name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = sys.Root.StopFuture(pid).Wait() })
		for _, endpoint := range []string{".status", ".tree", ".kv"} {
			testkit.Until(t, endpoint+" answers", func() bool {
				_, err := conn.Request("troupe.v1.node."+name+endpoint, nil, time.Minute)
				return err == nil
			})
		}
	}
	return conn, asking
}

func ask(t *testing.T, conn *nats.Conn, subject, body string, into proto.Message) {
	t.Helper()
	m, err := conn.Request(subject, []byte(body), time.Minute)
	if err != nil {
		t.Fatalf("%s: %v", subject, err)
	}
	if err := protojson.Unmarshal(m.Data, into); err != nil {
		t.Fatalf("%s: %v %s", subject, m.Header, m.Data)
	}
}

// TestViewShowsUnreachableNodes checks that each node shows all nodes in order, unreachable ones
// included.
func TestViewShowsUnreachableNodes(t *testing.T) {
	conn, asking := cluster(t)
	for _, from := range []string{"a", "b"} {
		view := &control.View{Conn: conn, Backend: node{name: from}, Node: from, Runtime: asking.runtime()}
		asking.request()
		var got []string
		for _, n := range view.Nodes(t.Context()) {
			got = append(got, n.GetMember().GetName()+":"+n.GetUnreachable())
			seen, silent := n.GetLastSeen().GetSeconds(), n.GetUnreachable() != "" && n.GetUnreachable() != "lost"
			if silent && seen != int64(n.GetMember().GetName()[0]) {
				t.Errorf("%s was last seen at %d", n.GetMember().GetName(), seen)
			}
		}
		if s := strings.Join(got, " "); s != "a: b: c:no answer within 1s d:not connected to NATS b1:lost" {
			t.Error(s)
		}
	}
	var gpus messages.ListGpusResponse
	asking.request()
	ask(t, conn, "troupe.v1.gpus.list", "", &gpus)
	var got []string
	for _, g := range gpus.GetGpus() {
		got = append(got, g.GetNode()+"/"+g.GetName()+":"+g.GetUnreachable())
	}
	want := "a/gpu-0: b/gpu-0: d/gpu-0:not connected to NATS d/gpu-1:not connected to NATS"
	if s := strings.Join(got, " "); s != want {
		t.Error(s)
	}
}

// TestKVAsksAllNodes checks that KV requests go to all nodes and that unreachable nodes are shown.
// A node that hangs does not delay the answers of the others.
func TestKVAsksAllNodes(t *testing.T) {
	conn, asking := cluster(t)
	var stats messages.KvStatsResponse
	asking.request()
	ask(t, conn, "troupe.v1.kv.stats", "", &stats)
	var got []string
	for _, n := range stats.GetNodes() {
		got = append(got, n.GetNode()+":"+n.GetUnreachable())
	}
	if s := strings.Join(got, " "); s != "a: b: c:no answer within 1s d:not connected to NATS" ||
		len(stats.GetPins()) != 1 ||
		len(stats.GetPins()[0].GetTokens()) > 0 {
		t.Error(s, stats.GetPins())
	}
	var flushed messages.KvFlushResponse
	asking.request()
	ask(t, conn, "troupe.v1.kv.flush", `{"tier":"dram"}`, &flushed)
	got = nil
	for _, m := range flushed.GetMoved() {
		got = append(got, fmt.Sprintf("%s %s %d:%s", m.GetNode(), m.GetTier(), m.GetBlocks(), m.GetUnreachable()))
	}
	if s := strings.Join(got, ", "); s != "a dram 3:, b dram 3:, c  0:no answer within 1s, d  0:not connected to NATS" {
		t.Error(s)
	}
	var one messages.KvStatsResponse
	if ask(t, conn, "troupe.v1.kv.stats", `{"node":"b"}`, &one); len(one.GetNodes()) != 1 ||
		one.GetNodes()[0].GetNode() != "b" {
		t.Errorf("%v", &one)
	}
}

// TestDrainShowsDecision checks that the answer combines the node's own status with the new
// decision.
func TestDrainShowsDecision(t *testing.T) {
	conn, _ := cluster(t)
	var drained messages.DrainNodeResponse
	ask(t, conn, "troupe.v1.nodes.drain", `{"name":"b"}`, &drained)
	if n := drained.GetNode(); !n.GetDraining() || n.GetDetail() != "decided" || len(n.GetGpus()) != 1 {
		t.Errorf("%v", n)
	}
	var unreachable messages.DrainNodeResponse
	ask(t, conn, "troupe.v1.nodes.drain", `{"name":"d"}`, &unreachable)
	if n := unreachable.GetNode(); !n.GetDraining() || n.GetUnreachable() != "not connected to NATS" {
		t.Errorf("%v", n)
	}
	var back messages.UndrainNodeResponse
	ask(t, conn, "troupe.v1.nodes.undrain", `{"name":"b"}`, &back)
	if n := back.GetNode(); n.GetDraining() || n.GetDetail() != "" {
		t.Errorf("%v", n)
	}
}

// TestTreeOfAllNodes checks that each node folds its own sessions, so a folded tree always fits
// into a message. A whole tree that does not fit is refused with an error.
func TestTreeOfAllNodes(t *testing.T) {
	conn, asking := cluster(t)
	var text messages.TreeResponse
	asking.request()
	ask(t, conn, "troupe.v1.tree", `{"format":"text"}`, &text)
	for _, want := range []string{
		"\na ", "… 4 more sessions", "\nb ", "… 2994 more sessions", "UNREACHABLE: no answer within 1s",
		"4 nodes, 3014 actors, 0 restarts, 2 unreachable",
	} {
		if !strings.Contains(text.GetText(), want) {
			t.Errorf("no %q in\n%s", want, text.GetText())
		}
	}
	var whole messages.TreeResponse
	ask(t, conn, "troupe.v1.tree", `{"node":"a"}`, &whole)
	if roots := whole.GetRoots(); len(roots) != 1 || len(roots[0].GetChildren()[0].GetChildren()) != 10 {
		t.Errorf("%v", roots)
	}
	m, err := conn.Request("troupe.v1.node.b.tree", []byte(`{"whole":true}`), time.Minute)
	if err != nil || !strings.Contains(m.Header.Get("Nats-Service-Error"), "max_payload") {
		t.Errorf("%v %v", m, err)
	}
}

// TestTreePageWithoutNATS checks that a node without NATS still shows its own tree.
func TestTreePageWithoutNATS(t *testing.T) {
	conn, _ := cluster(t)
	conn.Close()
	view := &control.View{Conn: conn, Backend: node{name: "a"}, Node: "a"}
	w := httptest.NewRecorder()
	tree.Handler(view.Tree).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/tree", nil))
	if body := w.Body.String(); !strings.Contains(body, "└─ gateway") ||
		strings.Count(body, "UNREACHABLE: nats: connection closed") != 3 {
		t.Error(body)
	}
}
