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

// TestUpServesAndStops starts a node as "make run" does, reads until the first completion has been streamed, and ends it as Ctrl-C does: without requests it does not wait for any.
func TestUpServesAndStops(t *testing.T) {
	self, err := os.Executable() // testscript.Main makes it the node, under that name
	if err != nil {
		t.Fatal(err)
	}
	config := writeFile(t, t.TempDir(), "node.yaml",
		"deployments: [{name: kjv-2m, path: "+testkit.Model()+", replicas: 2}]\n")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // a node that does not end: it is killed then
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
	for _, want := range []string{"HTTP  http://127.0.0.1:", "NATS  nats://127.0.0.1:", "curl http://", "troupe.v1.infer.kjv-2m", "troupe tree --nats", "In the beginning"} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not print %q", want)
		}
	}
	_, completion, _ := strings.Cut(strings.TrimSuffix(text, serving+"\n"), "kjv-2m says:\n\n  In the beginning")
	if len(strings.TrimSpace(completion)) < 20 {
		t.Errorf("hardly a completion: %q", completion)
	}
	if err := node.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	readUntil(out, "") // Wait must not close the pipe before
	if err := node.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if strings.Contains(log.String(), "crash") {
		t.Error("an orderly end is no crash")
	}
	if t.Failed() {
		t.Logf("output:\n%s\nlog:\n%s", text, log)
	}
}

// readUntil returns what comes up to the line that is last, or to the end.
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
