package main

import (
	"bufio"
	"encoding/json"
	"os/exec"
	"path/filepath"
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
	bin, data := filepath.Join(t.TempDir(), "node"), t.TempDir()
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	first, url := startNode(t, bin, data)
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
	_, url = startNode(t, bin, data)
	serves(t, url)
}

var natsLine = regexp.MustCompile(`nats://\S+`)

// startNode starts a node and returns it with its NATS URL. It is killed at the end of the test.
func startNode(t *testing.T, bin, data string, more ...string) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.Command(bin, append([]string{
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
