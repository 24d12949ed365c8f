package node_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"troupe/cluster/security"
	"troupe/messages"
	"troupe/node"
)

// concatenate writes the content of files to another file, atomically.
func concatenate(t *testing.T, to string, from ...string) {
	t.Helper()
	text := ""
	for _, f := range from {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		text += string(b)
	}
	putFile(t, to, text)
}

// TestCARotation checks that two nodes move to certificates of a new CA without a restart and stay
// connected over NATS and their links. Then one node is revoked and loses the other.
func TestCARotation(t *testing.T) {
	t.Parallel() // it mostly waits
	cas := [2]string{t.TempDir(), t.TempDir()}
	for _, dir := range cas {
		ca, _, err := security.OpenAuthority(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a", "b", "guest"} {
			if _, err := ca.Issue(name, []string{"127.0.0.1"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	var dirs [2]string // with the files of each node
	all := func(do func(dir, name string)) {
		for i, name := range []string{"a", "b"} {
			do(dirs[i], name)
		}
	}
	certify := func(ca string) {
		all(func(dir, name string) {
			concatenate(t, filepath.Join(dir, "node.key"), filepath.Join(ca, name+".key"))
			concatenate(t, filepath.Join(dir, "node.crt"), filepath.Join(ca, name+".crt"))
		})
	}
	trust := func(cas ...string) {
		for i := range cas {
			cas[i] = filepath.Join(cas[i], "ca.crt")
		}
		all(func(dir, _ string) { concatenate(t, filepath.Join(dir, "ca.crt"), cas...) })
	}
	dirs[0], dirs[1] = t.TempDir(), t.TempDir()
	certify(cas[0])
	trust(cas[0])
	all(func(dir, _ string) { putFile(t, filepath.Join(dir, "revoked"), "") })
	nodes := startCluster(t, 2, func(i int, c *node.Config) {
		f := func(name string) string { return filepath.Join(dirs[i], name) }
		id, err := security.Load(security.Files{
			Cert: f("node.crt"), Key: f("node.key"), CA: f("ca.crt"), Revoked: f("revoked"),
		}, c.Log)
		if err != nil {
			t.Fatal(err)
		}
		c.TLS, c.Login = id, security.Login{TLS: id}
	})
	deploy(t, nodes[0], kjvSpec(2))
	both := filepath.Join(t.TempDir(), "ca.crt") // the client trusts both, so that a refusal is the node's
	concatenate(t, both, filepath.Join(cas[0], "ca.crt"), filepath.Join(cas[1], "ca.crt"))
	guest := func(ca string) error {
		id, err := security.Load(security.Files{
			Cert: filepath.Join(ca, "guest.crt"), Key: filepath.Join(ca, "guest.key"), CA: both,
		}, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		opts, err := security.Login{TLS: id}.Options()
		if err != nil {
			t.Fatal(err)
		}
		conn, err := nats.Connect(nodes[0].NATSURL(), opts...)
		if err == nil {
			conn.Close()
		}
		return err
	}
	checkConnected := func(when string) {
		t.Helper()
		var at map[string]string
		waitWithin(t, 2*time.Minute, when+": a replica on each node", func() bool {
			at = placements(t, nodes[0])
			return len(at) == 2 && at["kjv-0"] != at["kjv-1"]
		})
		for replica, node := range at {
			from := nodes[0]
			if node == "a" {
				from = nodes[1]
			}
			waitFor(t, when+": a command over the link to "+node,
				func() bool { return from.Backend().RestartReplica(t.Context(), replica) == nil })
		}
		waitFor(t, when+": both to serve", func() bool {
			d, err := nodes[1].Backend().Deployment(t.Context(), "kjv")
			return err == nil && d.GetState() == messages.DeploymentState_DEPLOYMENT_STATE_READY &&
				len(d.GetReplicas()) == 2
		})
	}
	checkConnected("at first")
	if guest(cas[0]) != nil || guest(cas[1]) == nil {
		t.Error("at first, only clients of the old CA must be accepted")
	}
	trust(cas[0], cas[1])
	checkConnected("with both CAs")
	for _, ca := range cas {
		if err := guest(ca); err != nil {
			t.Errorf("with both CAs: %v", err)
		}
	}
	certify(cas[1])
	checkConnected("with new certificates")
	trust(cas[1])
	waitFor(t, "connections of the old CA to be closed", func() bool { return guest(cas[0]) != nil })
	checkConnected("with only the new CA")
	if err := guest(cas[1]); err != nil {
		t.Errorf("a client of the new CA: %v", err)
	}
	for _, n := range nodes {
		waitFor(t, n.Member().GetName()+" to know both members", func() bool { return len(n.Backend().Members()) == 2 })
	}

	file, _, err := security.Revoke(cas[1], "b")
	if err != nil {
		t.Fatal(err)
	}
	concatenate(t, filepath.Join(dirs[0], "revoked"), file)
	waitFor(t, "the revoked node to be removed", func() bool { return len(nodes[0].Backend().Members()) == 1 })
}
