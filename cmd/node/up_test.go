package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"troupe/testkit"
)

const serving = "Serving until Ctrl-C."

// TestUpServesAndStops starts a node as "make run" does, waits for the completion of --try, and
// sends SIGINT. Without requests the node exits before --drain-timeout.
func TestUpServesAndStops(t *testing.T) {
	self, err := os.Executable() // testscript.Main runs the node under this name
	if err != nil {
		t.Fatal(err)
	}
	config := writeFile(t, t.TempDir(), "node.yaml",
		"deployments: [{name: kjv-2m, path: "+testkit.Model()+", replicas: 2}]\n")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // kills a node that does not exit
	defer cancel()
	node := exec.CommandContext(ctx, self, "up", "--config", config, "--data", t.TempDir(), "--http", "127.0.0.1:0",
		"--nats-listen", "127.0.0.1:0", "--devices", "host:2x512MiB", "--drain-timeout", "1h", "--try",
		"In the beginning")
	node.Args[0] = "troupe"
	log := &bytes.Buffer{}
	node.Stderr = log
	out, err := node.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	text := readUntil(out, serving)
	for _, want := range []string{
		"HTTP  http://127.0.0.1:", "NATS  nats://127.0.0.1:", "curl http://", "troupe.v1.infer.kjv-2m",
		"troupe tree --nats", "In the beginning",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("output lacks %q", want)
		}
	}
	_, completion, _ := strings.Cut(strings.TrimSuffix(text, serving+"\n"), "kjv-2m says:\n\n  In the beginning")
	if len(strings.TrimSpace(completion)) < 20 {
		t.Errorf("completion is too short: %q", completion)
	}
	if err := node.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	readUntil(out, "") // read to the end before Wait closes the pipe
	if err := node.Wait(); err != nil {
		t.Errorf("exited with %v", err)
	}
	if strings.Contains(log.String(), "crash") {
		t.Error("a shutdown was logged as a crash")
	}
	if t.Failed() {
		t.Logf("output:\n%s\nlog:\n%s", text, log)
	}
}

// readUntil returns the lines up to and including last, or to the end.
func readUntil(in io.Reader, last string) string {
	var text strings.Builder
	for lines := bufio.NewScanner(in); lines.Scan(); {
		text.WriteString(lines.Text() + "\n")
		if last != "" && lines.Text() == last {
			break
		}
	}
	return text.String()
}
