package shutdown_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/messages"
	"troupe/node/shutdown"
)

// node records how it is shut down.
type node struct {
	did      []string
	inFlight time.Duration // how long each request is in flight
	replicas int           // number of status queries until the replicas are gone
	running  uint32
}

func (n *node) do(what string) { n.did = append(n.did, what) }

func (n *node) Drain()          { n.do("drain") }
func (n *node) Close()          { n.do("refuse") }
func (n *node) EndKeepAlives()  { n.do("end keep-alives") }
func (n *node) Shutdown() error { n.do("end web"); return nil }

func (n *node) Wait(ctx context.Context) int {
	select {
	case <-ctx.Done():
		return 1
	case <-time.After(n.inFlight):
		return 0
	}
}

func (n *node) status(context.Context) (*messages.NodeStatus, error) {
	s := &messages.NodeStatus{Running: n.running}
	if n.replicas--; n.replicas >= 0 {
		s.Replicas = 1
	}
	return s, nil
}

func of(n *node, peers bool) *shutdown.Shutdown {
	return &shutdown.Shutdown{Config: shutdown.Config{
		Gateway: n, Web: n, HavePeers: func() bool { return peers }, OnLeaving: func() { n.do("leave NATS") },
		SetLeaving: func(context.Context) error { n.do("announce"); return errors.New("no NATS") },
		Status:     n.status, Stopping: func() { n.do("stopping") }, Stop: func() { n.do("stop") },
		Timeout: 8 * time.Second, Log: zerolog.Nop(), Runtime: supervise.System,
	}}
}

// TestShutdown checks the order of a shutdown, and how long it takes.
func TestShutdown(t *testing.T) {
	rest := []string{"end web", "stop"}
	for name, c := range map[string]struct {
		node  node
		peers bool
		drain bool
		takes time.Duration
		cut   bool
		want  []string
	}{
		"alone": {want: []string{"stopping", "refuse", "end keep-alives", "announce"}},
		"drained": {drain: true, takes: time.Minute,
			want: []string{"drain", "announce", "stopping", "refuse", "end keep-alives"}},
		"with peers": {peers: true, takes: 150 * time.Millisecond, node: node{replicas: 3},
			want: []string{"stopping", "refuse", "end keep-alives", "leave NATS", "announce"}},
		"idle replicas that stay": {peers: true, takes: 3050 * time.Millisecond, node: node{replicas: 1000},
			want: []string{"stopping", "refuse", "end keep-alives", "leave NATS", "announce"}},
		"busy replicas that stay": {peers: true, takes: 8 * time.Second, node: node{replicas: 1000, running: 1},
			want: []string{"stopping", "refuse", "end keep-alives", "leave NATS", "announce"}},
		"requests in flight": {takes: time.Second, node: node{inFlight: time.Second},
			want: []string{"stopping", "refuse", "end keep-alives", "announce"}},
		"requests cut off": {takes: 8 * time.Second, cut: true, node: node{inFlight: time.Hour},
			want: []string{"stopping", "refuse", "end keep-alives", "announce"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, began := of(&c.node, c.peers), time.Now()
				if c.drain {
					s.Drain(t.Context(), time.Minute)
				}
				if err := s.Finish(t.Context()); (err != nil) != c.cut {
					t.Error(err)
				}
				if took := time.Since(began); took != c.takes {
					t.Errorf("took %s, want %s", took, c.takes)
				}
				if want := append(c.want, rest...); !slices.Equal(c.node.did, want) {
					t.Errorf("%q, want %q", c.node.did, want)
				}
			})
		})
	}
}
