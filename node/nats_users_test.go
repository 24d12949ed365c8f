package node_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"troupe/cluster/security"
	"troupe/messages"
	"troupe/node"
	"troupe/testkit"
)

// documented are the public nkeys in docs and examples, by user.
var documented = map[string]string{
	"node":  "UD272X35UXXJLVNJA5GHVJUAE6WCUWNOILV5JXR5BT6Y6QB3E3XBDI3D",
	"anna":  "UCF37K36PWYXV35NTU4Q5V3N525PO66FKHVC5RLUBN2CV5YK4L7F2GOM",
	"guest": "UBOGYX3AZJC7WOGGCY3VL65ART6OIHBOCUUVNBKSG6WS4CUKVBNIWIOG",
}

// example is a node whose server has the users of a documented configuration.
type example struct {
	node  *node.Node
	seeds map[string]string
	log   *logBuffer
}

// startExample starts a node with the users of a documented configuration, under other keys.
func startExample(t *testing.T, file string, change func(*node.Config)) *example {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testkit.Root(), "examples", file))
	if err != nil {
		t.Fatal(err)
	}
	docs, err := os.ReadFile(filepath.Join(testkit.Root(), "docs", "howto", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	indented := strings.ReplaceAll(strings.ReplaceAll(string(text), "\n", "\n    "), "\n    \n", "\n\n")
	if !strings.Contains(string(docs), "    "+strings.TrimSpace(indented)) {
		t.Errorf("docs/howto/security.md does not show examples/%s as it is", file)
	}
	public, seeds := createUsers(t, "node", "anna", "guest")
	config := string(text)
	for name, key := range documented {
		config = strings.ReplaceAll(config, key, public[name])
	}
	e := &example{seeds: seeds, log: &logBuffer{}}
	e.node = startWithUsers(t, config, seeds["node"], func(c *node.Config) {
		c.Deployments = []*messages.DeploymentSpec{{Name: "kjv-2m", Path: testkit.Model()}}
		c.Log = zerolog.New(e.log).Level(zerolog.DebugLevel)
		if change != nil {
			change(c)
		}
	})
	return e
}

// connect connects as a user, with the user's inbox prefix.
func (e *example) connect(t *testing.T, name string) *nats.Conn {
	t.Helper()
	return connectAs(t, e.node, e.seeds[name], nats.CustomInboxPrefix("_INBOX_"+name),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})) // tests use LastError
}

// infer requests a stream of text and returns the text.
func infer(t *testing.T, conn *nats.Conn, header nats.Header) string {
	t.Helper()
	g := goldens(t)[0]
	body, err := json.Marshal(map[string]any{
		"prompt": g.Prompt, "max_tokens": len(g.OutputIDs), "temperature": 0, "format": "text",
	})
	if err != nil {
		t.Fatal(err)
	}
	inbox := conn.NewInbox()
	sub, err := conn.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.PublishMsg(&nats.Msg{Subject: "troupe.v1.infer.kjv-2m", Reply: inbox, Data: body,
		Header: header}); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for {
		m, err := sub.NextMsg(time.Minute)
		if err != nil {
			t.Fatalf("%v after %q", err, text.String())
		}
		if len(m.Data) == 0 {
			return text.String()
		}
		text.Write(m.Data)
	}
}

// TestDocumentedUsers checks that each documented user can do its job, and that a guest has no
// further permissions.
func TestDocumentedUsers(t *testing.T) {
	for file, accounts := range map[string]bool{"nats-users.conf": false, "nats-accounts.conf": true} {
		t.Run(file, func(t *testing.T) {
			e := startExample(t, file, nil)
			anna, guest := e.connect(t, "anna"), e.connect(t, "guest")
			if got := infer(t, guest, nil); got != goldens(t)[0].Text {
				t.Errorf("the guest got %q", got)
			}
			if got := infer(t, anna, nil); got != goldens(t)[0].Text {
				t.Errorf("anna got %q", got)
			}
			for _, subject := range []string{"troupe.v1.models.list", "troupe.v1.nodes.list", "$SRV.PING.troupe",
				"$SRV.INFO.troupe", "$SRV.STATS.troupe"} {
				if m := request(t, anna, subject, ""); m.Header.Get("Nats-Service-Error") != "" || len(m.Data) == 0 {
					t.Errorf("%s: %v", subject, m.Header)
				}
			}
			e.guestReads(t)
			e.guestWrites(t)
			e.foreignInboxes(t, accounts)
		})
	}
}

// violates reports whether the server denies a user's action, tried on a separate connection.
func (e *example) violates(t *testing.T, name string, do func(*nats.Conn) error) bool {
	t.Helper()
	conn := e.connect(t, name)
	defer conn.Close()
	if err := errors.Join(do(conn), conn.Flush()); err != nil {
		t.Fatal(err)
	}
	return errors.Is(conn.LastError(), nats.ErrPermissionViolation)
}

// guestReads checks that a guest cannot read the messages of others.
func (e *example) guestReads(t *testing.T) {
	for _, name := range []string{"guest", "anna"} {
		for _, subject := range []string{
			">", "_INBOX.>", "_INBOX.*", "*.>", "_INBOX_troupe_nodes.>", "_INBOX_troupe_peers.>",
			"_INBOX_other.>", "$KV.>", "$JS.>", "$SYS.>", "$SRV.>",
			"troupe.members.>", "troupe.v1.infer.>", "troupe.v1.models.list", "_R_.>",
		} {
			if !e.violates(t, name, func(c *nats.Conn) error { _, err := c.SubscribeSync(subject); return err }) {
				t.Errorf("%s may subscribe to %s", name, subject)
			}
		}
	}
	for _, subject := range []string{"_INBOX_anna.>", "troupe.v1.events.>"} {
		if !e.violates(t, "guest", func(c *nats.Conn) error { _, err := c.SubscribeSync(subject); return err }) {
			t.Errorf("the guest may subscribe to %s", subject)
		}
	}
}

// guestWrites checks that a guest cannot publish beyond its permissions.
func (e *example) guestWrites(t *testing.T) {
	for _, subject := range []string{
		"troupe.v1.models.list", "troupe.v1.models.delete", "troupe.v1.models.scale",
		"troupe.v1.infer.other", "troupe.v1.infer.kjv-2m.x", "troupe.v1.tree",
		"troupe.v1.node.test.status", "troupe.v1.events.forged", "troupe.members.members.test",
		"$SRV.PING", "$JS.API.INFO",
		"$JS.API.STREAM.DELETE.KV_troupe", "$KV.troupe.deployments.kjv-2m",
		"$KV.troupe-members.members.test", "_INBOX_anna.x",
		"_INBOX_troupe_nodes.x", "_INBOX_troupe_peers.x", "_R_.x",
	} {
		if !e.violates(t, "guest",
			func(c *nats.Conn) error { return c.Publish(subject, []byte(`{"name":"kjv-2m"}`)) }) {
			t.Errorf("the guest may publish to %s", subject)
		}
	}
	for _, subject := range []string{"$JS.API.STREAM.DELETE.KV_troupe", "$KV.troupe.deployments.kjv-2m",
		"_INBOX_troupe_nodes.x", "_INBOX_troupe_peers.x"} {
		if !e.violates(t, "anna", func(c *nats.Conn) error { return c.Publish(subject, nil) }) {
			t.Errorf("anna may publish to %s", subject)
		}
	}
}

// foreignInboxes checks that answers do not reach the inboxes of other users.
func (e *example) foreignInboxes(t *testing.T, accounts bool) {
	guest, node, anna := e.connect(t, "guest"), connectAs(t, e.node, e.seeds["node"]), e.connect(t, "anna")
	inboxes := map[*nats.Conn]string{node: "_INBOX_troupe_nodes.>", anna: "_INBOX_anna.stolen"}
	subs := map[string]*nats.Subscription{}
	for conn, subject := range inboxes {
		sub, err := conn.SubscribeSync(subject)
		if err := errors.Join(err, conn.Flush()); err != nil {
			t.Fatal(err)
		}
		subs[subject] = sub
	}
	js, err := jetstream.New(node)
	if err != nil {
		t.Fatal(err)
	}
	before := refusedReplies(t, e.node)
	for _, reply := range []string{"_INBOX_troupe_nodes.stolen", "_INBOX_anna.stolen",
		"$JS.API.STREAM.DELETE.KV_troupe"} {
		if err := guest.PublishRequest("troupe.v1.infer.kjv-2m", reply,
			[]byte(`{"prompt":"stolen","echo":true,"max_tokens":1,"stream":false}`)); err != nil {
			t.Fatal(err)
		}
	}
	if accounts { // the server has replaced the reply subjects: the answers stay in the guest's account
		if got := infer(t, guest, nil); got != goldens(t)[0].Text {
			t.Errorf("the guest got %q", got)
		}
	} else {
		waitFor(t, "two requests to be dropped", func() bool { return refusedReplies(t, e.node) == before+2 })
		// an inbox prefix does not identify the sender of a request
		if _, err := subs["_INBOX_anna.stolen"].NextMsg(time.Minute); err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(node.Flush(), anna.Flush()); err != nil {
		t.Fatal(err)
	}
	for subject, sub := range subs {
		for {
			m, err := sub.NextMsg(time.Millisecond)
			if err != nil {
				break
			}
			if strings.Contains(string(m.Data), "stolen") && (accounts || subject != "_INBOX_anna.stolen") {
				t.Errorf("%s received %s", m.Subject, m.Data)
			}
		}
	}
	if _, err := js.Stream(t.Context(), "KV_troupe"); err != nil {
		t.Error(err)
	}
}

// TestTrustedAccounts checks that account and user of a guest are taken from the server's header,
// and never from the client's.
func TestTrustedAccounts(t *testing.T) {
	forged := nats.Header{"Nats-Request-Info": {`{"acc":"FORGED","user":"forged"}`}}
	twice := nats.Header{"Nats-Request-Info": {`{"acc":"FORGED"}`, `{"acc":"FORGED"}`}}
	spelled := nats.Header{"nats-request-info": {`{"acc":"FORGED"}`}, "NATS-REQUEST-INFO": {`{"acc":"FORGED"}`}}
	for name, c := range map[string]struct {
		trusted bool
		from    string
		header  nats.Header
		want    string
	}{
		"guest":                            {true, "guest", nil, `"account":"GUESTS"`},
		"guest with forged header":         {true, "guest", forged, `"account":"GUESTS"`},
		"guest with two forged headers":    {true, "guest", twice, `"account":"GUESTS"`},
		"guest with misspelled header":     {true, "guest", spelled, `"endpoint":"infer"`},
		"guest, not trusted":               {false, "guest", nil, `"endpoint":"infer"`},
		"user of the nodes' account":       {true, "anna", nil, `"endpoint":"infer"`},
		"the same with forged header":      {true, "anna", forged, `"endpoint":"infer"`},
		"the same with two forged headers": {true, "anna", twice, `"endpoint":"infer"`},
	} {
		t.Run(name, func(t *testing.T) {
			e := startExample(t, "nats-accounts.conf",
				withLight(t, func(cfg *node.Config) { cfg.TrustAccounts = c.trusted }))
			infer(t, e.connect(t, c.from), c.header)
			line := ""
			waitFor(t, "the answer to be logged", func() bool {
				for one := range strings.SplitSeq(e.log.take(), "\n") {
					if strings.Contains(one, `"endpoint":"infer"`) {
						line = one
					}
				}
				return line != ""
			})
			if !strings.Contains(line, c.want) || strings.Contains(line, "FORGED") ||
				c.from == "anna" && strings.Contains(line, `"account":`) {
				t.Errorf("logged: %s, want %s", line, c.want)
			}
			if !c.trusted && strings.Contains(line, "GUESTS") {
				t.Errorf("used although not trusted: %s", line)
			}
		})
	}
}

// TestNATSCommandLineWithUsers runs the nats command line with the inbox prefixes of the documented
// users.
func TestNATSCommandLineWithUsers(t *testing.T) {
	bin := filepath.Join(testkit.Root(), ".bin", "nats")
	if _, err := exec.LookPath(bin); err != nil {
		if bin, err = exec.LookPath("nats"); err != nil {
			t.Skip("needs the nats command line; `make nats` builds it")
		}
	}
	e := startExample(t, "nats-users.conf", nil)
	for _, c := range []struct {
		as   string
		args []string
		want string
	}{
		{"anna", []string{"micro", "ls"}, "troupe"},
		{"anna", []string{"micro", "info", "troupe"}, "troupe.v1.models.deploy"},
		{"anna", []string{"micro", "stats", "troupe"}, "models-list"},
		{"anna", []string{"micro", "ping", "troupe"}, "troupe"},
		{"anna", []string{"req", "--raw", "troupe.v1.models.list", ""}, `"name":"kjv-2m"`},
		{"guest", []string{"req", "--raw", "--wait-for-empty", "troupe.v1.infer.kjv-2m",
			`{"prompt":"In the beginning","temperature":0,"max_tokens":4,"format":"text"}`}, "LORD"},
	} {
		args := append(
			[]string{"--server", e.node.NATSURL(), "--nkey", e.seeds[c.as], "--inbox-prefix", "_INBOX_" + c.as},
			c.args...)
		out, err := exec.CommandContext(t.Context(), bin, args...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("nats %v: %v\n%s", c.args, err, out)
		}
	}
}

// TestJoinWithRestrictedUser starts a second node next to one with the documented users. The nodes
// query each other through inboxes that no user may read. Both answer to the inbox prefixes of
// users, although only the first one has the file.
func TestJoinWithRestrictedUser(t *testing.T) {
	e := startExample(t, "nats-users.conf", nil)
	second := start(t, func(c *node.Config) {
		c.Name, c.Deployments, c.NATSListen, c.Join = "b", nil, "", []string{e.node.NATSURL()}
		c.Login = security.Login{Nkey: e.seeds["node"]}
	})
	anna := e.connect(t, "anna")
	waitFor(t, "each node to list both", func() bool {
		for range 8 { // either node may answer
			nodes := answer[messages.ListNodesResponse](t, anna, "troupe.v1.nodes.list", "").GetNodes()
			if len(nodes) != 2 || nodes[0].GetUnreachable() != "" || nodes[1].GetUnreachable() != "" {
				return false
			}
		}
		return true
	})
	if count := refusedReplies(t, e.node) + refusedReplies(t, second); count != 0 {
		t.Errorf("%d requests were dropped", count)
	}
}
