package recovery_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/cluster/bucket"
	"troupe/cluster/members"
	"troupe/cluster/natsd"
	"troupe/cluster/recovery"
	"troupe/cluster/store"
	"troupe/messages"
	"troupe/testkit"
)

// node has a node's connection to the store: its server, the desired state and the members.
type node struct {
	server  *natsd.Server
	conn    *nats.Conn
	store   *store.Store
	members *members.Members
	end     context.CancelFunc
	kept    sync.WaitGroup
	once    sync.Once
}

func (n *node) stop() { n.once.Do(n.stopOnce) }

func (n *node) stopOnce() {
	if n.end != nil {
		n.end()
	}
	n.kept.Wait()
	if n.members != nil {
		n.members.Close()
	}
	if n.store != nil {
		n.store.Close()
	}
	if n.conn != nil {
		n.conn.Close()
	}
	n.server.Stop()
}

// boot opens the store in a folder as a node does, with a real server, whose files are what is
// damaged.
func boot(t *testing.T, dir string) (n *node, err error) {
	t.Helper()
	n = &node{}
	log := zerolog.Nop()
	known, err := recovery.Load(dir, log)
	if err != nil {
		return nil, err
	}
	cfg := natsd.Config{Listen: "127.0.0.1:0", StoreDir: dir, Name: "test", Log: log}
	opts := natsd.ClientOptions("test", log)
	if n.server, err = recovery.Start(t.Context(), supervise.System, cfg, opts, known); err != nil {
		return nil, err
	}
	t.Cleanup(n.stop)
	if n.conn, err = n.server.Connect(opts...); err != nil {
		return nil, err
	}
	client, err := bucket.NewClient(n.conn, nil)
	if err != nil {
		return nil, err
	}
	if n.store, err = store.Open(t.Context(), client, store.Config{Folder: dir, Copy: known, Log: log}); err != nil {
		return nil, err
	}
	seen, limit := n.store.Terms()
	cfg2 := members.Config{Name: "test", Instance: "i", SeenTerm: seen, TermLimit: limit, Log: log}
	if n.members, err = members.Open(t.Context(), client, cfg2); err != nil {
		return nil, err
	}
	if err := n.store.TrackTerms(t.Context(), n.members.HighestTerm); err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(context.Background())
	n.kept.Go(func() { n.store.Run(ctx, func(string, string) {}) })
	n.end = end
	return n, nil
}

// prepared describes a folder and its content.
type prepared struct {
	Dir         string
	Deployments map[string]uint32 // replicas
	Revision    uint64
	Term        uint64
}

// prepare returns the folder of a node that was stopped, and that of a node that was killed.
func prepare(t *testing.T) (stopped, killed prepared) {
	t.Helper()
	p := prepared{Dir: t.TempDir(), Deployments: map[string]uint32{}}
	n, err := boot(t, p.Dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	put := func(name string, replicas uint32) {
		spec := &messages.DeploymentSpec{
			Name:         name,
			Path:         "/srv/models/" + name,
			Replicas:     new(replicas),
			MaxSequences: new(uint32(64)),
		}
		_, over, err := n.store.Get(ctx, name)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			t.Fatal(err)
		}
		if p.Revision, err = n.store.Put(ctx, spec, over); err != nil {
			t.Fatal(err)
		}
		p.Deployments[name] = replicas
	}
	for i := range 8 {
		put(fmt.Sprint("model-", i), 1)
	}
	if err := errors.Join(n.store.Delete(ctx, "model-2", false), n.store.Delete(ctx, "model-5", false)); err != nil {
		t.Fatal(err)
	}
	delete(p.Deployments, "model-2")
	delete(p.Deployments, "model-5")
	for i := range 3 {
		spec := &messages.AdapterSpec{Model: "model-0", Name: fmt.Sprint("adapter-", i), Path: "/srv/adapters"}
		if _, err := n.store.PutAdapter(ctx, spec, 0); err != nil {
			t.Fatal(err)
		}
	}
	put("model-1", 3)
	if err := errors.Join(
		n.store.PutNode(ctx, &messages.NodeSpec{Name: "test", Draining: true}), n.members.Join(ctx, "127.0.0.1:1"),
	); err != nil {
		t.Fatal(err)
	}
	put("model-6", 2)
	p.Term = acquire(t, n, "planner")
	killed = p
	killed.Dir = t.TempDir()
	if err := os.CopyFS(killed.Dir, os.DirFS(p.Dir)); err != nil {
		t.Fatal(err)
	}
	n.stop()
	return p, killed
}

// check fails if a node lacks a stored value.
func (p prepared) check(t *testing.T, n *node) {
	t.Helper()
	ctx := t.Context()
	all, err := n.store.List(ctx)
	if err != nil {
		t.Fatalf("%v", err)
	}
	have := map[string]uint32{}
	for _, spec := range all {
		have[spec.GetName()] = spec.GetReplicas()
	}
	for name, replicas := range p.Deployments {
		if have[name] != replicas {
			t.Errorf("ready with %d replicas of %s instead of %d", have[name], name, replicas)
		}
	}
	for _, name := range []string{"model-2", "model-5"} {
		if _, back := have[name]; back {
			t.Errorf("deleted deployment %s is back", name)
		}
	}
	revision, err := n.store.Put(ctx, &messages.DeploymentSpec{Name: "later"}, 0)
	if err != nil || revision <= p.Revision {
		t.Errorf("revision %d after %d, %v", revision, p.Revision, err)
	}
	if err := n.members.Join(ctx, "127.0.0.1:1"); err != nil {
		t.Fatalf("%v", err)
	}
	if term := acquire(t, n, "next"); term <= p.Term {
		t.Errorf("term %d after %d", term, p.Term)
	}
}

// acquire acquires a free role as soon as the node's membership is certain.
func acquire(t *testing.T, n *node, role string) (term uint64) {
	t.Helper()
	testkit.Until(t, "the role is free", func() bool {
		var ok bool
		var err error
		term, ok, err = n.members.Acquire(t.Context(), role)
		if err != nil && !errors.Is(err, members.ErrNotMember) {
			t.Fatal(err)
		}
		return ok
	})
	return term
}
