package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"troupe/testkit"
)

// TestDeploymentsSurviveKill checks that a restarted node serves its deployments again after kill
// -9.
func TestDeploymentsSurviveKill(t *testing.T) {
	data := t.TempDir()
	first, url := startNode(t, data)
	deploy, err := json.Marshal(map[string]any{"deployment": map[string]any{"name": "kjv", "path": testkit.Model()}})
	if err != nil {
		t.Fatal(err)
	}
	if answer := ask(t, url, "troupe.v1.models.deploy", string(deploy)); !strings.Contains(answer, `"name":"kjv"`) {
		t.Fatal(answer)
	}
	serves(t, url)
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait() // it was killed
	_, url = startNode(t, data)
	serves(t, url)
}

var natsLine = regexp.MustCompile(`nats://\S+`)

// command returns a command of troupe that runs as a process of its own. It is this test's binary,
// which testscript.Main runs as troupe under that name, so nothing is built for it.
func command(ctx context.Context, t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Args[0] = "troupe"
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0") // the race detector delays the exit
	return cmd
}

// startNode starts a node and returns it with its NATS URL. It is killed at the end of the test.
func startNode(t *testing.T, data string, more ...string) (*exec.Cmd, string) {
	t.Helper()
	cmd := command(t.Context(), t, append([]string{
		"up", "--data", data, "--http", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0", "--devices", "host:1x256MiB",
	}, more...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may be dead already
		_ = cmd.Wait()
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if url := natsLine.FindString(lines.Text()); url != "" {
			return cmd, url
		}
	}
	t.Fatal("no NATS URL in the output of the node")
	return nil, ""
}

// ask sends a request over NATS and returns the answer.
func ask(t *testing.T, url, subject, body string) string {
	t.Helper()
	conn, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answer, err := conn.Request(subject, []byte(body), time.Minute)
	if err != nil {
		t.Fatalf("%s: %v", subject, err)
	}
	return string(answer.Data)
}

// serves waits until the model answers a request.
func serves(t *testing.T, url string) {
	t.Helper()
	answer := ""
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		answer = ask(t, url, "troupe.v1.infer.kjv",
			`{"prompt": "In the beginning", "max_tokens": 4, "temperature": 0, "stream": false, "format": "text"}`)
		if strings.Contains(answer, "LORD") {
			return
		}
		<-time.After(20 * time.Millisecond)
	}
	t.Fatalf("the model does not serve: %s", answer)
}
