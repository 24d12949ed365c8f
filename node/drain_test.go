package node_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"troupe/cuda/host"
	"troupe/messages"
	"troupe/node"
)

// getStatus returns the status of a page, over a new connection.
func getStatus(t *testing.T, n *node.Node, path string) int {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get("http://" + n.HTTPAddr() + path)
	if err != nil {
		t.Errorf("%s: %v", path, err)
		return 0
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// startDrain drains a node until the test calls over.
func startDrain(t *testing.T, n *node.Node) (over func()) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	drained := make(chan struct{})
	go func() { n.Drain(ctx, time.Hour); close(drained) }()
	over = func() { end(); <-drained }
	t.Cleanup(over)
	waitFor(t, "/ready to report draining", func() bool {
		status, body := readiness(t, n)
		return status == http.StatusServiceUnavailable && strings.Contains(body, `["draining"]`)
	})
	return over
}

// TestDrainServesOnOtherNodes checks that a draining node is not ready and serves the remaining
// HTTP requests on the other node's replica, and that it gets no requests over NATS.
func TestDrainServesOnOtherNodes(t *testing.T) {
	nodes := startCluster(t, 2, nil)
	deploy(t, nodes[0], kjvSpec(2), nodes[1])
	g := goldens(t)[0]
	body := map[string]any{"model": "kjv", "prompt": g.Prompt, "max_tokens": len(g.OutputIDs), "temperature": 0}
	checkCompletion := func(n *node.Node) {
		t.Helper()
		status, answer := post(t, n, "/v1/completions", body)
		var c completion
		if err := json.Unmarshal(answer, &c); err != nil || status != http.StatusOK || c.Choices[0].Text != g.Text {
			t.Errorf("%s: %d %s", n.Member().GetName(), status, answer)
		}
	}
	over := startDrain(t, nodes[1])
	waitFor(t, "the other node to know that b leaves", func() bool {
		for _, m := range nodes[0].Backend().Members() {
			if m.GetName() == "b" {
				return m.GetState() == messages.MemberState_MEMBER_STATE_LEAVING
			}
		}
		return false
	})
	for range 4 {
		checkCompletion(nodes[1])
	}
	conn, err := nats.Connect(nodes[0].NATSURL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for range 8 {
		body := []byte(`{"prompt":"a","max_tokens":2,"stream":false}`)
		msg, err := conn.Request("troupe.v1.infer.kjv", body, time.Minute)
		if err != nil || !strings.Contains(string(msg.Data), "text_completion") {
			t.Errorf("over NATS: %v, %v", msg, err)
		}
	}
	if got := fmt.Sprint(getStatus(t, nodes[1], "/live"), getStatus(t, nodes[0], "/ready")); got != "200 200" {
		t.Errorf("/live of the node that drains and /ready of the other one: %s", got)
	}
	over()
	if err := nodes[1].Stop(context.Background()); err != nil {
		t.Error(err)
	}
	checkCompletion(nodes[0])
}

// TestStopKeepsPortOpen checks that a stopping node refuses requests but answers probes until its
// last stream has ended with its golden output. It closes idle connections.
func TestStopKeepsPortOpen(t *testing.T) {
	n, gate := startGated(t, 4, func(c *node.Config) { c.DrainTimeout = 10 * time.Minute })
	g := goldens(t)[0]
	idle, err := net.Dial("tcp", n.HTTPAddr())
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	fmt.Fprint(idle, "GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if _, err := idle.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	text := make(chan string, 1)
	go func() {
		text <- complete(t, n, map[string]any{
			"model": "kjv", "prompt": g.Prompt, "max_tokens": len(g.OutputIDs), "temperature": 0,
		}).Choices[0].Text
	}()
	gate.await(t)
	over := startDrain(t, n)
	over()
	stopped := make(chan error, 1)
	go func() { stopped <- n.Stop(context.Background()) }()
	waitFor(t, "requests to be refused",
		func() bool { return getStatus(t, n, "/v1/models") == http.StatusServiceUnavailable })
	_ = idle.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := io.Copy(io.Discard, idle); err != nil {
		t.Errorf("the idle connection is open: %v", err)
	}
	for path, want := range map[string]int{"/live": 200, "/health": 200, "/ready": 503, "/metrics": 200} {
		if got := getStatus(t, n, path); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
	status, body := post(t, n, "/v1/completions", map[string]any{"model": "kjv", "prompt": "a"})
	if status != http.StatusServiceUnavailable || !strings.Contains(string(body), `"error":{"message":"this node`) {
		t.Errorf("a new request: %d %s", status, body)
	}
	select {
	case err := <-stopped:
		t.Fatalf("the node has ended before its stream: %v", err)
	default:
	}
	gate.open()
	if got := <-text; got != g.Text {
		t.Errorf("the stream got %q, want %q", got, g.Text)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if c, err := net.Dial("tcp", n.HTTPAddr()); err == nil {
		_ = c.Close()
		t.Error("the port is open after Stop")
	}
}

// TestStopFinishesNATSRequests checks that a stopping node finishes requests over NATS.
func TestStopFinishesNATSRequests(t *testing.T) {
	n, gate := startGated(t, 4, func(c *node.Config) { c.DrainTimeout = 10 * time.Minute })
	g := goldens(t)[0]
	conn, err := nats.Connect(n.NATSURL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answer := make(chan *nats.Msg, 1)
	go func() {
		req, _ := json.Marshal(map[string]any{
			"prompt": g.Prompt, "max_tokens": len(g.OutputIDs), "temperature": 0, "stream": false, "format": "text",
		})
		msg, err := conn.Request("troupe.v1.infer.kjv", req, time.Minute)
		if err != nil {
			t.Error(err)
		}
		answer <- msg
	}()
	gate.await(t)
	stopped := make(chan error, 1)
	go func() { stopped <- n.Stop(context.Background()) }()
	waitFor(t, "requests to be refused",
		func() bool { return getStatus(t, n, "/v1/models") == http.StatusServiceUnavailable })
	gate.open()
	if msg := <-answer; msg == nil || string(msg.Data) != g.Text {
		t.Errorf("%v, want %q", msg, g.Text)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// TestDrainedNodeIsNotReady checks that a node that the operator drains is not ready but serves
// requests.
func TestDrainedNodeIsNotReady(t *testing.T) {
	n := start(t, nil)
	for _, draining := range []bool{true, false} {
		if _, err := n.Backend().DrainNode(t.Context(), "test", draining); err != nil {
			t.Fatal(err)
		}
		waitFor(t, fmt.Sprintf("/ready while drained: %v", draining), func() bool {
			return (getStatus(t, n, "/ready") == 503) == draining
		})
		if got := getStatus(t, n, "/v1/models"); got != 200 {
			t.Errorf("a request: %d", got)
		}
	}
}

// TestProbesWhileStarting checks that a node that waits for NATS answers probes and refuses other
// requests, and that it closes its port when the start is cancelled.
func TestProbesWhileStarting(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	web, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	started := make(chan error, 1)
	go func() {
		_, err := node.Start(ctx, node.Config{
			Name: "test", DataDir: t.TempDir(), HTTPListener: web, Join: []string{"nats://" + silent.Addr().String()},
			Devices: []host.Config{{MemoryBytes: 64 << 20}}, Log: zerolog.Nop(),
		})
		started <- err
	}()
	base := "http://" + web.Addr().String()
	for _, tc := range []struct {
		method, path, want string
	}{
		{"GET", "/live", `200 {"status":"ok"}`}, {"GET", "/health", `200 {"status":"ok"}`},
		{"GET", "/ready", `503 {"ready":false,"causes":["starting"]}`}, {"GET", "/metrics", `503 {"error":`},
		{"POST", "/v1/completions", `503 {"error":{"message":"this node is starting`},
	} {
		status, body := httpRequest(t, tc.method, base+tc.path, "{}")
		if got := fmt.Sprint(status, " ", body); !strings.HasPrefix(got, tc.want) {
			t.Errorf("%s %s: %s, want %s", tc.method, tc.path, got, tc.want)
		}
	}
	end()
	if err := <-started; err == nil {
		t.Error("the node started")
	}
	if c, err := net.Dial("tcp", web.Addr().String()); err == nil {
		_ = c.Close()
		t.Error("the port is still open")
	}
}
