package node_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"troupe/cluster/security"
	"troupe/node"
)

// createUsers creates an nkey for each name and returns the public keys and the seeds.
func createUsers(t *testing.T, names ...string) (public, seeds map[string]string) {
	t.Helper()
	public, seeds = map[string]string{}, map[string]string{}
	dir := t.TempDir()
	for _, name := range names {
		file := filepath.Join(dir, name+".nk")
		key, err := security.NewNkey(file)
		if err != nil {
			t.Fatal(err)
		}
		public[name], seeds[name] = key, file
	}
	return public, seeds
}

// startWithUsers starts a node whose embedded server has the users of a configuration. The node
// logs in with the seed.
func startWithUsers(t *testing.T, config, seed string, change func(*node.Config)) *node.Node {
	t.Helper()
	file := filepath.Join(t.TempDir(), "users.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return start(t, func(c *node.Config) {
		c.NATSUsers, c.Login = file, security.Login{Nkey: seed}
		if change != nil {
			change(c)
		}
	})
}

// connectAs connects to a node's server as the user with the seed.
func connectAs(t *testing.T, n *node.Node, seed string, opts ...nats.Option) *nats.Conn {
	t.Helper()
	login, err := security.Login{Nkey: seed}.Options()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := nats.Connect(n.NATSURL(), append(login, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

var refusedLine = regexp.MustCompile(`(?m)^troupe_nats_replies_refused_total (\S+)$`)

// refusedReplies returns the number of requests that the node dropped because of their reply
// subject.
func refusedReplies(t *testing.T, n *node.Node) int {
	t.Helper()
	res, err := http.Get("http://" + n.HTTPAddr() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	found := refusedLine.FindSubmatch(body)
	if found == nil {
		return 0
	}
	count, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return int(count)
}

// TestReplySubjects lets a user with access to one subject try to send the node's answers to
// subjects that it may not publish to.
func TestReplySubjects(t *testing.T) {
	public, seeds := createUsers(t, "node", "guest", "lister", "operator")
	n := startWithUsers(t, fmt.Sprintf(`authorization { users = [
		{nkey: %s}
		{nkey: %s}
		{nkey: %s, permissions: {publish: "troupe.v1.infer.kjv", subscribe: "_INBOX_guest.>"}}
		{nkey: %s, permissions: {publish: ["troupe.v1.models.list", "$SRV.>"], subscribe: "_INBOX_lister.>"}}
	]}`, public["node"], public["operator"], public["guest"], public["lister"]), seeds["node"], nil)
	guest, lister, operator := connectAs(t, n, seeds["guest"]), connectAs(t, n,
		seeds["lister"]), connectAs(t, n, seeds["operator"])
	js, err := jetstream.New(operator)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := js.KeyValue(t.Context(), "troupe")
	if err != nil {
		t.Fatal(err)
	}
	created := func() string {
		s, err := js.Stream(t.Context(), "KV_troupe")
		if err != nil {
			return err.Error()
		}
		return s.CachedInfo().Created.String()
	}
	deployments := func() string {
		e, err := stored.Get(t.Context(), "deployments.kjv")
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint(e.Revision(), string(e.Value()))
	}
	overheard, err := operator.SubscribeSync("troupe.v1.events.forged")
	if err != nil {
		t.Fatal(err)
	}
	forged := func() string {
		count, _, err := overheard.Pending()
		return fmt.Sprint(count, err)
	}
	// A greedy model continues with a comma, which stops the answer.
	echo := `{"prompt":"{\"name\":\"kjv\",\"replicas\":2}","echo":true,"max_tokens":8,"stop":[","],` +
		`"temperature":0,"stream":false,"format":"text"}`
	for name, a := range map[string]struct {
		from                 *nats.Conn
		subject, body, reply string
		watched              func() string
	}{
		"infer, echo, to models.scale": {guest, "troupe.v1.infer.kjv", echo, "troupe.v1.models.scale", deployments},
		"infer, no tokens, to delete": {guest, "troupe.v1.infer.kjv",
			`{"prompt":"a","max_tokens":0,"stream":false}`, "$JS.API.STREAM.DELETE.KV_troupe", created},
		"infer, refused, to delete": {guest, "troupe.v1.infer.kjv", `{"prompt":`,
			"$JS.API.STREAM.DELETE.KV_troupe", created},
		"models.list to a stored key": {lister, "troupe.v1.models.list", "", "$KV.troupe.deployments.kjv",
			deployments},
		"models.list, refused, to a key": {lister, "troupe.v1.models.list", "nonsense",
			"$KV.troupe.deployments.kjv", deployments},
		"ping to a stored key":          {lister, "$SRV.PING", "", "$KV.troupe.deployments.kjv", deployments},
		"info of the service, to a key": {lister, "$SRV.INFO.troupe", "", "$KV.troupe.deployments.kjv", deployments},
		"stats of the service, to a key": {lister, "$SRV.STATS.troupe", "", "$KV.troupe.deployments.kjv",
			deployments},
		"infer to an event": {guest, "troupe.v1.infer.kjv", "a", "troupe.v1.events.forged", forged},
		"infer to a changed members key": {guest, "troupe.v1.infer.kjv", echo,
			"$KV.troupe-members.members.test", created},
		"infer to an inbox of the node":    {guest, "troupe.v1.infer.kjv", "a", "_INBOX_troupe_nodes.x.y", created},
		"infer to a wildcard below _INBOX": {guest, "troupe.v1.infer.kjv", "a", "_INBOX.*", created},
	} {
		t.Run(name, func(t *testing.T) {
			before, refused := a.watched(), refusedReplies(t, n)
			if err := a.from.PublishRequest(a.subject, a.reply, []byte(a.body)); err != nil {
				t.Fatal(err)
			}
			waitFor(t, "the request to be dropped", func() bool {
				if now := a.watched(); now != before {
					t.Fatalf("before %s\nnow %s", before, now)
				}
				return refusedReplies(t, n) > refused
			})
			if now := a.watched(); now != before {
				t.Errorf("before %s\nnow %s", before, now)
			}
		})
	}
	if err := guest.LastError(); err != nil && !strings.Contains(err.Error(), "permissions") {
		t.Error(err)
	}
}
