package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"troupe/cluster/security"
	"troupe/testkit"
)

// TestCommandsAsNATSUser checks that commands work for a documented NATS user with its inbox
// prefix, and name the prefix in their error without it.
func TestCommandsAsNATSUser(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable() // testscript.Main runs the node under this name
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(testkit.Root(), "examples", "nats-users.conf"))
	if err != nil {
		t.Fatal(err)
	}
	config := string(text)
	for name, documented := range map[string]string{
		"node": "UD272X35UXXJLVNJA5GHVJUAE6WCUWNOILV5JXR5BT6Y6QB3E3XBDI3D",
		"anna": "UCF37K36PWYXV35NTU4Q5V3N525PO66FKHVC5RLUBN2CV5YK4L7F2GOM",
	} {
		public, err := security.NewNkey(filepath.Join(dir, name+".nk"))
		if err != nil {
			t.Fatal(err)
		}
		config = strings.ReplaceAll(config, documented, public)
	}
	cmd := exec.Command(self, "up", "--name", "n1", "--data", filepath.Join(dir, "data"), "--http", "127.0.0.1:0",
		"--nats-listen", "127.0.0.1:0", "--devices", "host:1x256MiB", "--nats-users",
		writeFile(t, dir, "users.conf", config), "--nats-nkey", filepath.Join(dir, "node.nk"))
	cmd.Args[0] = "troupe"
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	url := ""
	for lines := bufio.NewScanner(out); url == "" && lines.Scan(); {
		url = natsLine.FindString(lines.Text())
	}
	run := func(args ...string) (string, error) {
		c := exec.Command(self, append(args, "--nats", url, "--nats-nkey", filepath.Join(dir, "anna.nk"))...)
		c.Args[0] = "troupe"
		out, err := c.CombinedOutput()
		return string(out), err
	}
	for _, args := range [][]string{{"top", "--once"}, {"tree"}, {"kv"}} {
		if got, err := run(append(args, "--nats-inbox-prefix", "_INBOX_anna")...); err != nil ||
			!strings.Contains(got, "n1") {
			t.Errorf("node %v: %v\n%s", args, err, got)
		}
	}
	if got, err := run("tree"); err == nil || !strings.Contains(got, "--nats-inbox-prefix") {
		t.Errorf("without the prefix: %v\n%s", err, got)
	}
	if got, err := run("tree", "--nats-inbox-prefix", "_INBOX_troupe_nodes"); err == nil ||
		!strings.Contains(got, "is reserved for nodes") {
		t.Errorf("with the nodes' prefix: %v\n%s", err, got)
	}
}
