package cluster_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"troupe/testkit/cluster"
)

// A load has enough streams at once for two replicas to run some each, and for each adapter to have some. They are
// long enough for a fault to happen during them.
const (
	clients = 12
	tokens  = 80
)

// expected returns the requests of this package's tests with their answers.
var expected = sync.OnceValues(func() (*cluster.Load, error) {
	ctx, cancel := context.WithTimeout(context.Background(), cluster.TimeScale*time.Minute)
	defer cancel()
	requests := cluster.Requests(clients, tokens)
	answers, err := cluster.ReferenceAnswers(ctx, requests)
	return &cluster.Load{Requests: requests, Answers: answers, Streams: clients}, err
})

// load returns a load through gateways.
func load(t *testing.T, gateways ...*cluster.Node) cluster.Load {
	t.Helper()
	l, err := expected()
	if err != nil {
		t.Fatal(err)
	}
	return cluster.Load{Requests: l.Requests, Answers: l.Answers, Streams: l.Streams, Gateways: gateways}
}

func deploy(t *testing.T, c *cluster.Cluster, replicas int) {
	t.Helper()
	if err := c.Deploy(cluster.TestContext(t, time.Minute), cluster.Spec(replicas)); err != nil {
		t.Fatal(err)
	}
}

func measureBaseline(t *testing.T, c *cluster.Cluster) cluster.Baseline {
	t.Helper()
	var l cluster.Baseline
	until(t, "the goroutines of all nodes", func() bool {
		var err error
		l, err = c.MeasureBaseline(t.Context())
		return err == nil
	})
	return l
}

func checkClean(t *testing.T, c *cluster.Cluster, before cluster.Baseline) {
	t.Helper()
	if err := c.WaitClean(cluster.TestContext(t, time.Minute), before); err != nil {
		t.Errorf("left behind: %v", err)
	}
}

// TestStreamsSurviveReplicaRestarts restarts each of two replicas while streams run.
func TestStreamsSurviveReplicaRestarts(t *testing.T) {
	c := cluster.Up(t, cluster.Config{Nodes: 1, Devices: "host:2x256MiB"})
	deploy(t, c, 2)
	before := measureBaseline(t, c)
	l := load(t, c.Nodes...)
	l.Repeat = true
	run := l.Start(cluster.TestContext(t, time.Minute))
	for i := range 2 {
		if err := run.WaitStreaming(cluster.TestContext(t, time.Minute)); err != nil {
			t.Fatal(err)
		}
		if err := c.RestartReplica(t.Context(), fmt.Sprintf("%s-%d", cluster.ModelName, i)); err != nil {
			t.Fatal(err)
		}
	}
	report := run.Finish()
	t.Log(report)
	if err := report.Err(); err != nil {
		t.Error(err)
	}
	if report.Streams < clients {
		t.Errorf("%d streams for %d clients", report.Streams, clients)
	}
	checkClean(t, c, before)
}

// TestWrongAnswersAreReported checks that the slightest difference from the expected answer is
// reported, for its stream only.
func TestWrongAnswersAreReported(t *testing.T) {
	c := cluster.Up(t, cluster.Config{Nodes: 1})
	deploy(t, c, 1)
	l := load(t, c.Nodes...)
	l.Requests, l.Answers, l.Streams = l.Requests[:8], append([]cluster.Answer(nil), l.Answers[:8]...), 8
	half := len(l.Answers[1].Text) / 2
	l.Answers[1].Text = l.Answers[1].Text[:half] + l.Answers[1].Text[half+1:] // as if a token had been repeated
	l.Answers[2].Text += "x"                                                  // as if the last token had been lost
	l.Answers[3].Finish = "stop"
	l.Answers[4].Tokens++
	report := l.Start(cluster.TestContext(t, time.Minute)).Finish()
	if report.Streams != 4 || len(report.Errors) != 4 {
		t.Errorf("%s", report)
	}
	text := fmt.Sprint(report.Err(), report.Errors)
	for _, want := range []string{
		"request 1 through n1", "request 2 through", "request 3 through", "request 4 through",
		fmt.Sprintf("from byte %d on", half),
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the errors do not contain %q: %s", want, text)
		}
	}
}

// TestLeftoversAreReported checks that running sequences and surplus goroutines are reported.
func TestLeftoversAreReported(t *testing.T) {
	c := cluster.Up(t, cluster.Config{Nodes: 1})
	deploy(t, c, 1)
	before := measureBaseline(t, c)
	l := load(t, c.Nodes...)
	l.Repeat = true
	run := l.Start(cluster.TestContext(t, time.Minute))
	if err := run.WaitStreaming(cluster.TestContext(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"kjv-0 on n1 runs", "KV blocks", "node/gateway/session-", "requests in flight"} {
		until(t, "report of "+want, func() bool { // a replica reports its figures periodically
			err := c.Leftovers(t.Context(), before)
			return err != nil && strings.Contains(err.Error(), want)
		})
	}
	if err := run.Finish().Err(); err != nil {
		t.Error(err)
	}
	checkClean(t, c, before)
	before["n1"] -= 1000
	if err := c.Leftovers(t.Context(), before); err == nil || !strings.Contains(err.Error(), "goroutines") {
		t.Errorf("goroutines are not reported: %v", err)
	}
}

// TestNodeKeepsAddressAcrossRestarts checks that a node that is stopped, continued, killed and
// restarted keeps its addresses and data.
func TestNodeKeepsAddressAcrossRestarts(t *testing.T) {
	for _, isolated := range []bool{false, true} {
		t.Run(fmt.Sprintf("isolated %t", isolated), func(t *testing.T) {
			c := cluster.Up(t, cluster.Config{Nodes: 1, Isolated: isolated})
			deploy(t, c, 1)
			n, url := c.Nodes[0], c.Nodes[0].URL("/")
			if err := n.Process().Stop(); err != nil {
				t.Fatal(err)
			}
			until(t, "stopped", func() bool { return state(t, n) == "T" })
			if err := n.Process().Continue(); err != nil {
				t.Fatal(err)
			}
			until(t, "continued", func() bool { return state(t, n) != "T" })
			if err := n.Process().Kill(); err != nil {
				t.Fatal(err)
			}
			if n.Alive() || !n.Process().Killed() || n.Process().Kill() == nil {
				t.Error("the killed node seems alive")
			}
			for range 2 { // the second time after a graceful stop
				if n.Alive() {
					if err := n.Process().Terminate(cluster.TestContext(t, time.Minute)); err != nil {
						t.Fatal(err)
					}
				}
				if err := n.Start(cluster.TestContext(t, time.Minute)); err != nil {
					t.Fatal(err)
				}
				if err := c.WaitReady(cluster.TestContext(t, time.Minute), cluster.ModelName); err != nil {
					t.Fatal(err)
				}
			}
			if n.URL("/") != url {
				t.Errorf("the address was %s and is %s", url, n.URL("/"))
			}
			l := load(t, n)
			l.Requests, l.Streams = l.Requests[:4], 4
			if err := l.Start(cluster.TestContext(t, time.Minute)).Finish().Err(); err != nil {
				t.Error(err)
			}
		})
	}
}

// state returns the kernel's state of a node's process: R, S or T.
func state(t *testing.T, n *cluster.Node) string {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n.Process().PID()))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return rest[:1]
}

// TestServerKeepsDataAcrossKill checks that a stock nats-server keeps its address and data when it
// is killed.
func TestServerKeepsDataAcrossKill(t *testing.T) {
	ctx := cluster.TestContext(t, time.Minute)
	s := cluster.NewServer(t.TempDir())
	t.Cleanup(s.Close)
	if err := s.Start(ctx); err != nil {
		t.Fatal(err)
	}
	url := s.URL()
	js, err := jetstream.New(connect(t, url))
	if err != nil {
		t.Fatal(err)
	}
	kv, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "kept"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.PutString(ctx, "key", "value"); err != nil {
		t.Fatal(err)
	}
	if err := s.Process().Kill(); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if s.URL() != url {
		t.Errorf("the address was %s and is %s", url, s.URL())
	}
	if err := cluster.Until(ctx, func() error {
		got, err := kv.Get(ctx, "key")
		if err == nil && string(got.Value()) != "value" {
			t.Errorf("stored value %q", got.Value())
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

func connect(t *testing.T, url string) *nats.Conn {
	t.Helper()
	conn, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// TestHasFlag checks that only complete flag names match.
func TestHasFlag(t *testing.T) {
	if !cluster.HasFlag("--http") || !cluster.HasFlag("--nats-listen") || cluster.HasFlag("--htt") ||
		cluster.HasFlag("--nats") {
		t.Error("HasFlag does not match troupe up --help")
	}
}
