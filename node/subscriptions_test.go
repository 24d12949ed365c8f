package node_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"troupe/messages"
	"troupe/node"
)

// TestSubscriptions checks that each subscription of a node is an endpoint of the guarded service,
// an inbox of the node, or one of the member watches, which get no answer.
func TestSubscriptions(t *testing.T) {
	s, err := server.NewServer(&server.Options{
		Host:      "127.0.0.1",
		Port:      server.RANDOM_PORT,
		JetStream: true,
		StoreDir:  t.TempDir(),
		NoSigs:    true,
	})
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("not ready")
	}
	n := start(t, func(c *node.Config) { c.NATSListen, c.Join = "", []string{s.ClientURL()} })
	conn, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	served := map[string]bool{}
	for _, e := range serviceInfo(t, conn) {
		served[e] = true
	}
	if len(served) < 30 || !served["troupe.v1.infer.>"] || !served["troupe.v1.models.delete"] ||
		!served["troupe.v1.node.test.status"] {
		t.Fatalf("not the endpoints of a node: %v", served)
	}
	answer[messages.ListNodesResponse](t, conn, "troupe.v1.nodes.list", "")
	all, err := s.Connz(&server.ConnzOptions{Subscriptions: true, State: server.ConnOpen})
	if err != nil {
		t.Fatal(err)
	}
	described, inboxes, changes := 0, 0, 0
	for _, c := range all.Conns {
		if c.Name != "troupe node "+n.Member().GetName() {
			continue
		}
		for _, subject := range c.Subs {
			switch {
			case served[subject]:
				delete(served, subject)
			case slices.ContainsFunc([]string{"$SRV.PING", "$SRV.INFO", "$SRV.STATS"},
				func(p string) bool { return strings.HasPrefix(subject, p) }):
				described++
			case strings.HasPrefix(subject, "_INBOX_troupe_nodes."), strings.HasPrefix(subject, "_INBOX_troupe_peers."):
				inboxes++
			case subject == "troupe.members.>":
				changes++
			default:
				t.Errorf("unexpected subscription to %s", subject)
			}
		}
	}
	if len(served) > 0 || described != 9 || inboxes == 0 || changes != 1 {
		t.Errorf("not subscribed to %v; %d subjects of $SRV, %d inboxes, %d feeds of changes", served, described,
			inboxes, changes)
	}
}

// serviceInfo returns the subjects that the service lists.
func serviceInfo(t *testing.T, conn *nats.Conn) (subjects []string) {
	t.Helper()
	var info micro.Info
	if err := json.Unmarshal(request(t, conn, "$SRV.INFO.troupe", "").Data, &info); err != nil {
		t.Fatal(err)
	}
	for _, e := range info.Endpoints {
		subjects = append(subjects, e.Subject)
	}
	return subjects
}
