package control_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"troupe/cluster/natsd"
	"troupe/control"
	"troupe/messages"
	"troupe/testkit"
)

// TestServesClusterOnlyWhileSynced checks that a node answers requests about the cluster only after
// it is synced and before it leaves. It answers requests about itself all the time.
func TestServesClusterOnlyWhileSynced(t *testing.T) {
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
	sys := actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }),
	)
	synced, serving, leaving := make(chan struct{}), make(chan struct{}, 1), make(chan struct{})
	pid, err := sys.Root.SpawnNamed(control.Props(control.Config{
		Conn: conn, Backend: node{name: "a"}, Version: "0.0.0", Node: "a", Log: zerolog.Nop(),
		Synced: synced, OnServing: func() { serving <- struct{}{} }, Leaving: leaving,
	}), "a")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sys.Root.StopFuture(pid).Wait() })
	for _, endpoint := range []string{".status", ".tree", ".kv"} {
		testkit.Until(t, endpoint+" answers", func() bool {
			_, err := conn.Request("troupe.v1.node.a"+endpoint, nil, time.Minute)
			return err == nil
		})
	}
	for _, subject := range []string{
		"nodes.list", "replicas.migrate", "models.list", "kv.stats", "adapters.list", "explain.r",
	} {
		if _, err := conn.Request("troupe.v1."+subject, nil, time.Minute); !errors.Is(err, nats.ErrNoResponders) {
			t.Errorf("%s was answered with %v", subject, err)
		}
	}
	close(synced)
	<-serving
	ask(t, conn, "troupe.v1.nodes.list", "", &messages.ListNodesResponse{})
	close(leaving)
	testkit.Until(t, "the subscriptions are drained", func() bool {
		_, err := conn.Request("troupe.v1.nodes.list", nil, time.Minute)
		return errors.Is(err, nats.ErrNoResponders)
	})
	if _, err := conn.Request("troupe.v1.node.a.status", nil, time.Minute); err != nil {
		t.Errorf("status of the leaving node: %v", err)
	}
}
