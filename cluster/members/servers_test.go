package members

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"troupe/cluster/bucket"
	"troupe/cluster/natsd"
	"troupe/testkit"
)

// childConfig is the environment variable that makes the test binary run as a node with its own
// NATS server. The test kills that process.
const childConfig = "TROUPE_MEMBERS_TEST_CHILD"

// embedded is a node with its own NATS server.
type embedded struct {
	server *natsd.Server
	conn   *nats.Conn
	client bucket.Client
	*Members
}

func startEmbedded(ctx context.Context, cfg natsd.Config) (*embedded, error) {
	cfg.Log = zerolog.Nop()
	e := &embedded{}
	var err error
	if e.server, err = natsd.Start(ctx, cfg); err != nil {
		return nil, err
	}
	if e.conn, err = e.server.Connect(natsd.ClientOptions(cfg.Name, zerolog.Nop())...); err != nil {
		return nil, err
	}
	if e.client, err = bucket.NewClient(e.conn, nil); err != nil {
		return nil, err
	}
	config := Config{Name: cfg.Name, Instance: cfg.Name,
		Refused: func(context.Context, string) bool { return false }} // the address is none that could be looked up
	if e.Members, err = Open(ctx, e.client, config); err != nil {
		return nil, err
	}
	return e, e.Join(ctx, cfg.Name+":1")
}

func (e *embedded) stop() {
	e.Close()
	e.conn.Close()
	e.server.Stop()
}

// runChild runs the node of a child process until its standard input is closed.
func runChild(text string) {
	var cfg natsd.Config
	if err := json.Unmarshal([]byte(text), &cfg); err != nil {
		panic(err)
	}
	if _, err := startEmbedded(context.Background(), cfg); err != nil {
		panic(err)
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// child is a node in its own process.
type child struct{ cmd *exec.Cmd }

func startChild(ctx context.Context, cfg natsd.Config) (*child, error) {
	text, err := json.Marshal(struct {
		Listen, StoreDir, Name, ClusterListen string
		Routes                                []string
	}{cfg.Listen, cfg.StoreDir, cfg.Name, cfg.ClusterListen, cfg.Routes})
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), childConfig+"="+string(text))
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return nil, fmt.Errorf("child %s: %w", cfg.Name, err)
	}
	return &child{cmd}, nil
}

// kill kills the process with SIGKILL.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

// trio is three nodes whose servers form a NATS cluster. The third runs in its own process.
type trio struct {
	nodes [2]*embedded
	third *child
	cfg   natsd.Config // of the third node
}

func startTrio(t testing.TB) *trio {
	t.Helper()
	at := freeAddresses(t, 3)
	routes := []string{"nats://" + at[0], "nats://" + at[1], "nats://" + at[2]}
	config := func(i int) natsd.Config {
		return natsd.Config{
			Listen:        "127.0.0.1:0",
			StoreDir:      t.TempDir(),
			Name:          string(rune('a' + i)),
			ClusterListen: at[i],
			Routes:        routes,
			SharedProcess: i < 2,
		}
	}
	x := &trio{cfg: config(2)}
	configs := []natsd.Config{config(0), config(1)}
	var starting sync.WaitGroup
	var errs [3]error
	for i := range x.nodes {
		starting.Go(func() { x.nodes[i], errs[i] = startEmbedded(t.Context(), configs[i]) })
	}
	starting.Go(func() { x.third, errs[2] = startChild(t.Context(), x.cfg) })
	starting.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		x.third.kill()
		for _, n := range x.nodes {
			n.stop()
		}
	})
	return x
}

func (x *trio) restartThird(t testing.TB) {
	t.Helper()
	third, err := startChild(t.Context(), x.cfg)
	if err != nil {
		t.Fatal(err)
	}
	x.third = third
}

func (x *trio) canSuspect(live int) func() bool {
	return func() bool {
		for _, n := range x.nodes {
			n.mu.Lock()
			ok := n.health.canSuspect(time.Now()) && len(n.view.live()) == live
			n.mu.Unlock()
			if !ok {
				return false
			}
		}
		return true
	}
}

// lead makes a server the leader of the bucket's stream.
func (x *trio) lead(t testing.TB, server string) {
	t.Helper()
	client := x.nodes[0].client
	testkit.Until(t, server+" leads", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		info, err := client.Info(ctx, Bucket)
		if err != nil {
			return false
		}
		if info.Cluster == nil || info.Cluster.Leader != server {
			_, _ = x.nodes[0].conn.RequestWithContext(ctx, "$JS.API.STREAM.LEADER.STEPDOWN."+bucket.Stream(Bucket),
				[]byte(`{"placement":{"preferred":"`+server+`"}}`)) // the next round checks the result
			return false
		}
		return true
	})
	testkit.Until(t, "all can suspect others", x.canSuspect(3))
}

// TestKilledServer kills a node together with its NATS server, which is the leader in one case. The
// other two delete it, keep each other, and admit it again. It runs in real time with a real
// process, because only a killed one leaves its server's elections and connections to the others.
func TestKilledServer(t *testing.T) {
	x := startTrio(t)
	for _, leader := range []string{"a", "c"} {
		x.lead(t, leader)
		ids := [2]string{x.nodes[0].Self().GetId(), x.nodes[1].Self().GetId()}
		killed := time.Now()
		x.third.kill()
		testkit.Until(t, "c is dead", func() bool {
			return len(x.nodes[0].Live()) == 2 && len(x.nodes[1].Live()) == 2
		})
		t.Logf("with leader %s, c was declared dead after %s", leader, time.Since(killed).Round(time.Millisecond))
		testkit.Until(t, "all can suspect others", x.canSuspect(2))
		for i, n := range x.nodes {
			if n.Self().GetId() != ids[i] {
				t.Errorf("%s became %s", ids[i], n.Self().GetId())
			}
		}
		x.restartThird(t)
	}
	testkit.Until(t, "c is back", x.canSuspect(3))
}

func freeAddresses(t testing.TB, n int) (all []string) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		all = append(all, l.Addr().String())
	}
	return all
}
