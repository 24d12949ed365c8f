package node_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"troupe/cuda/host"
	"troupe/node"
)

// goroutinesOf returns the stacks of the goroutines that run a node's code.
func goroutinesOf() (all []string) {
	buf := make([]byte, 8<<20)
	for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(stack, "testing.tRunner") || !strings.Contains(stack, "troupe/") &&
			!strings.Contains(stack, "nats-server") && !strings.Contains(stack, "nats.go") {
			continue
		}
		all = append(all, stack)
	}
	return all
}

// awaitGoroutines waits until no more goroutines run a node's code than before.
func awaitGoroutines(t *testing.T, before int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; <-time.After(10 * time.Millisecond) {
		left := goroutinesOf()
		if len(left) <= before {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d goroutines still run, before there were %d:\n%s", len(left), before,
				strings.Join(left, "\n\n"))
		}
	}
}

// stopless has the steps that have nothing to stop.
var stopless = []string{
	"software devices", "secret", "backend", "join", "routes", "control service", "deployments", "adapters", "requests",
}

// TestStartFails checks that, if any start step fails, the steps before it are stopped in reverse
// order, nothing is left running, and the log names the failed step.
func TestStartFails(t *testing.T) {
	failure := errors.New("it breaks")
	http.DefaultClient.CloseIdleConnections()
	before := len(goroutinesOf())
	names := node.StepNames(node.Config{})
	for i, name := range names {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			log := &bytes.Buffer{}
			cfg := node.Config{
				Name: "test", DataDir: t.TempDir(), HTTP: l.Addr().String(), HTTPListener: l, NATSListen: "127.0.0.1:0",
				Devices: []host.Config{{MemoryBytes: 64 << 20}}, Version: "0.0.0",
				Log: zerolog.New(zerolog.SyncWriter(log)).Level(zerolog.InfoLevel),
			}
			if i <= slices.Index(names, "web") {
				defer l.Close() // the node has not taken ownership of it yet
			}
			stopped, err := node.StartFailing(t.Context(), cfg, name, failure)
			if !errors.Is(err, failure) {
				t.Fatal(err)
			}
			want := slices.DeleteFunc(slices.Clone(names[:i]),
				func(step string) bool { return slices.Contains(stopless, step) })
			slices.Reverse(want)
			if !slices.Equal(stopped, want) {
				t.Errorf("stopped %q, want %q", stopped, want)
			}
			if want := fmt.Sprintf(`"step":%q,"message":"start failed`, name); !strings.Contains(log.String(), want) {
				t.Errorf("the log lacks %s:\n%s", want, log)
			}
			awaitGoroutines(t, before)
		})
	}
}

// TestStartCancelled checks that a cancelled start leaves nothing running.
func TestStartCancelled(t *testing.T) {
	before := len(goroutinesOf())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	cfg := node.Config{
		Name: "test", DataDir: t.TempDir(), HTTP: "127.0.0.1:0", NATSListen: "127.0.0.1:0", Version: "0.0.0",
		Devices: []host.Config{{MemoryBytes: 64 << 20}}, Log: zerolog.Nop(),
	}
	if _, err := node.Start(ctx, cfg); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	awaitGoroutines(t, before)
}
