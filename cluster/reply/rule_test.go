package reply

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

func TestAllows(t *testing.T) {
	rule, err := NewRule([]string{"_INBOX_anna", "inbox.otto"})
	if err != nil {
		t.Fatal(err)
	}
	for subject, want := range map[string]bool{
		"_INBOX.a": true, "_INBOX.a.b.c": true, "_INBOX_anna.x": true, "inbox.otto.x": true, "_R_.a.b": true,
		PeerInbox + ".x": true,
		"":               false, "_INBOX": false, "_INBOX.": false, "_INBOX_anna": false, "_INBOX_anna2.x": false,
		"_INBOX_otto.x": false,
		"inbox.x":       false, "inbox.ottokar.x": false, "_R_": false, NodeInbox + ".x": false,
		NodeInbox + ".x.y": false,
		"_INBOX.*":         false, "_INBOX.>": false, "_INBOX.a.>": false, "_INBOX.a*": false, "_INBOX..a": false,
		"_INBOX.a.":  false,
		"_INBOX.a b": false, "_INBOX.a\tb": false, "_INBOX.a\r\nPUB x 0": false, "_INBOX.a\x00": false,
		"$JS.API.STREAM.DELETE.KV_troupe": false, "$KV.troupe.a": false, "$SYS.REQ.USER": false, "$SRV.PING": false,
		"troupe.v1.models.scale": false, "_GR_.a.b": false, "$JS.ACK.a": false, "x._INBOX.a": false, " _INBOX.a": false,
		"_INBOX." + strings.Repeat("a", longest): false,
	} {
		if got := rule.Allows(subject); got != want {
			t.Errorf("%q: %v", subject, got)
		}
	}
}

func TestCheckPrefix(t *testing.T) {
	for prefix, want := range map[string]bool{
		"_INBOX_anna": true, "inbox.anna": true, "_INBOX.anna": true, "": false, "_INBOX_anna.>": false, "*": false,
		">": false, "a b": false,
		"$JS": false, "$KV.troupe": false, "$SYS": false, "$SRV": false, "troupe": false, "troupe.v1.events": false,
		"_R_": false, "_GR_": false,
		NodeInbox: false, NodeInbox + ".x": false, PeerInbox: false, "a.": false, ".a": false,
	} {
		if err := CheckPrefix(prefix); (err == nil) != want {
			t.Errorf("%q: %v", prefix, err)
		}
		if _, err := NewRule([]string{prefix}); (err == nil) != want {
			t.Errorf("rule with %q: %v", prefix, err)
		}
	}
}

// FuzzAllows: an allowed subject has one of the prefixes and is literal.
func FuzzAllows(f *testing.F) {
	f.Add("_INBOX.a")
	f.Add("_INBOX_troupe_nodes.a")
	f.Add("$JS.API.STREAM.DELETE.KV_troupe")
	f.Fuzz(func(t *testing.T, subject string) {
		if !(Rule{}).Allows(subject) {
			return
		}
		first, rest, _ := strings.Cut(subject, ".")
		if rest == "" || strings.ContainsAny(subject, " \t\r\n*>") || strings.Contains(subject, "..") ||
			strings.HasSuffix(subject, ".") ||
			!slices.Contains([]string{CommonInbox, PeerInbox, acrossAccounts}, first) {
			t.Errorf("%q is answered", subject)
		}
	})
}

func TestPrefixesOfUsers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users.conf")
	if err := os.WriteFile(file, []byte(`
accounts {
  A { users = [
    {user: a, password: a, permissions: {
      subscribe: ["_INBOX_a.>", "troupe.v1.events.>", "_INBOX_troupe_nodes.>", "$JS.>"]}}
    {nkey: UB5OSBERG7CGMIKZRXMLA2YNMZAXDT22QTJUKUASAYUI66LMTZGN3RMG}
  ] }
  B { users = [
    {nkey: UD272X35UXXJLVNJA5GHVJUAE6WCUWNOILV5JXR5BT6Y6QB3E3XBDI3D, permissions: {
      subscribe: {allow: ["_INBOX.>", "_INBOX.b.>", "_INBOX_*.>", ">"]}}}
  ] }
}`), 0o600); err != nil {
		t.Fatal(err)
	}
	opts, err := server.ProcessConfigFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := Prefixes(opts); !slices.Equal(got, []string{"_INBOX.b", "_INBOX_a"}) {
		t.Errorf("%q", got)
	}
}

func TestGuardCounts(t *testing.T) {
	var log strings.Builder
	registry := prometheus.NewRegistry()
	g := NewGuard(Rule{}, registry, zerolog.New(&log))
	for range 100 {
		if g.Admit("troupe.v1.infer.kjv", "$JS.API.STREAM.DELETE.KV_troupe") {
			t.Fatal("admitted")
		}
	}
	if !g.Admit("a", "") || !g.Admit("a", "_INBOX.b") {
		t.Error("not admitted")
	}
	metrics, err := registry.Gather()
	if err != nil || len(metrics) != 1 || metrics[0].GetMetric()[0].GetCounter().GetValue() != 100 {
		t.Errorf("counted %v, %v", metrics, err)
	}
	if lines := strings.Count(log.String(), "\n"); lines < 1 || lines > 2*logBurst {
		t.Errorf("%d lines logged", lines)
	}
	NewGuard(Rule{}, nil, zerolog.New(io.Discard)).Admit("a", "b")
}
