package auditlog_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"troupe/messages"
	"troupe/node/auditlog"
)

// TestLog checks the recorded actions of a node, and that a member that joins is recorded once.
func TestLog(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	l, err := auditlog.Open(auditlog.Config{
		Node: "a", File: file, Registry: prometheus.NewRegistry(), Log: zerolog.Nop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	b := &messages.Member{Name: "b", Address: "127.0.0.1:1"}
	l.Node("node.started")
	l.Members([]*messages.Member{b}, nil)
	l.Members([]*messages.Member{b}, nil)
	l.Members(nil, []*messages.Member{b})
	l.Members([]*messages.Member{b}, nil)
	l.Reloaded("API keys")(errors.New("SECRET in line 3"))
	l.NATSRefused("127.0.0.1:2", "publish")
	l.Close()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var actions []string
	for line := range strings.Lines(string(text)) {
		_, rest, _ := strings.Cut(line, `"action":"`)
		action, _, _ := strings.Cut(rest, `"`)
		actions = append(actions, action)
	}
	want := "node.started member.joined member.left member.joined reload nats.refused"
	if got := strings.Join(actions, " "); got != want || strings.Contains(string(text), "SECRET") {
		t.Errorf("got %s, want %s:\n%s", got, want, text)
	}
}
