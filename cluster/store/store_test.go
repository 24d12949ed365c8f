package store

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"google.golang.org/protobuf/proto"

	"troupe/actors/model/deployment"
	"troupe/cluster/bucket"
	"troupe/cluster/natsd"
	"troupe/core/schedule"
	"troupe/messages"
	"troupe/testkit"
)

// open opens a store on a new server. restart stops the server and starts it again. It is a real
// server, since the store relies on its revisions, its watches and what it keeps.
func open(t *testing.T) (s *Store, restart func()) {
	t.Helper()
	dir, listen := t.TempDir(), "127.0.0.1:0"
	var server *natsd.Server
	start := func() {
		var err error
		cfg := natsd.Config{Listen: listen, StoreDir: dir, Name: "test", Log: zerolog.Nop()}
		if server, err = natsd.Start(context.Background(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	start()
	listen = strings.TrimPrefix(server.URL(), "nats://")
	t.Cleanup(func() { server.Stop() })
	conn, err := nats.Connect(server.URL(), natsd.ClientOptions("test", zerolog.Nop())...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	client, err := bucket.NewClient(conn, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s, err = Open(t.Context(), connected{client, conn}, Config{Log: zerolog.New(os.Stderr)}); err != nil {
		t.Fatal(err)
	}
	return s, func() { server.Stop(); start() }
}

// connected is a client and its connection.
type connected struct {
	bucket.Client
	conn *nats.Conn
}

// natsKV returns the view of nats.go of the bucket.
func natsKV(t *testing.T, s *Store) jetstream.KeyValue {
	t.Helper()
	js, err := jetstream.New(s.client.(connected).conn)
	if err != nil {
		t.Fatal(err)
	}
	kv, err := js.KeyValue(t.Context(), Bucket)
	if err != nil {
		t.Fatal(err)
	}
	return kv
}

// recorder holds what a watch has delivered: the last value of each name, nil if it was deleted.
type recorder[T any] struct {
	mu     sync.Mutex
	synced int
	last   map[string]T
}

func (f *recorder[T]) record(name string, value T, synced bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if synced {
		f.synced++
		return
	}
	f.last[name] = value
}

func (f *recorder[T]) until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	testkit.Until(t, what, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return ok()
	})
}

// startWatch runs a watch until the test ends.
func startWatch(t *testing.T, watch func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- watch(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the watch ended with %v", err)
		}
	})
}

func TestWatchNodes(t *testing.T) {
	s, restart := open(t)
	if got, err := s.Node(t.Context(), "a"); err != nil || got.GetName() != "a" || got.GetDraining() {
		t.Errorf("a node that is not stored: %v, %v", got, err)
	}
	drain := func(name string, draining bool) {
		t.Helper()
		if err := s.PutNode(t.Context(), &messages.NodeSpec{Name: name, Draining: draining}); err != nil {
			t.Fatal(err)
		}
	}
	drain("a", true)
	if got, err := s.Node(t.Context(), "a"); err != nil || !got.GetDraining() {
		t.Errorf("%v, %v", got, err)
	}
	f := &recorder[*messages.NodeSpec]{last: map[string]*messages.NodeSpec{}}
	startWatch(t, func(ctx context.Context) error {
		return s.WatchNodes(ctx, func(c NodeChange) { f.record(c.Name, c.Spec, c.Synced) })
	})
	f.until(t, "the stored node", func() bool { return f.synced == 1 && f.last["a"].GetDraining() })
	drain("b", true)
	f.until(t, "a change", func() bool { return f.last["b"].GetDraining() })
	restart()
	f.until(t, "all nodes again, after the server's restart", func() bool { return f.synced == 2 })
	drain("a", false)
	f.until(t, "a change after the restart", func() bool { return f.last["a"] != nil && !f.last["a"].GetDraining() })
	if _, err := s.kv.Put(t.Context(), nodes+"c", []byte(`{"name": "other"}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Node(t.Context(), "c"); err == nil {
		t.Error("no error for a key that stores another node")
	}
	if err := s.kv.Delete(t.Context(), nodes+"b", 0); err != nil {
		t.Fatal(err)
	}
	f.until(t, "a deletion", func() bool { spec, known := f.last["b"]; return known && spec == nil })
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, known := f.last["c"]; known {
		t.Error("an invalid value was delivered")
	}
}

func TestWatchDeploymentsAcrossRestart(t *testing.T) {
	s, restart := open(t)
	f := &recorder[*messages.DeploymentSpec]{last: map[string]*messages.DeploymentSpec{}}
	startWatch(t, func(ctx context.Context) error {
		return s.Watch(ctx, func(c deployment.Change) { f.record(c.Name, c.Spec, c.Synced) })
	})
	f.until(t, "the end of an empty listing", func() bool { return f.synced == 1 })
	revision, err := s.Put(t.Context(), &messages.DeploymentSpec{Name: "m", Replicas: new(uint32(1))}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), &messages.DeploymentSpec{Name: "m"}, revision+1); !errors.Is(err, ErrConflict) {
		t.Errorf("over another revision: %v", err)
	}
	restart()
	f.until(t, "the deployment again", func() bool { return f.synced == 2 && f.last["m"].GetReplicas() == 1 })
	scaled := &messages.DeploymentSpec{Name: "m", Replicas: new(uint32(2))}
	if _, err := s.Put(t.Context(), scaled, revision); err != nil {
		t.Fatal(err)
	}
	f.until(t, "a change", func() bool { return f.last["m"].GetReplicas() == 2 })
	if err := s.Delete(t.Context(), "m", false); err != nil {
		t.Fatal(err)
	}
	f.until(t, "a deletion", func() bool { spec, known := f.last["m"]; return known && spec == nil })
}

// TestDeletionDropsWeights checks that a deletion says whether weights are freed also to a watch that begins
// after it, which never sees the deployment, and after the bucket was lost.
func TestDeletionDropsWeights(t *testing.T) {
	s, _ := open(t)
	for _, name := range []string{"dropped", "kept"} {
		if _, err := s.Put(t.Context(), &messages.DeploymentSpec{Name: name}, 0); err != nil {
			t.Fatal(err)
		}
		if err := s.Delete(t.Context(), name, name == "dropped"); err != nil {
			t.Fatal(err)
		}
		if err := s.Delete(t.Context(), name, name == "dropped"); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s, deleted again: %v", name, err)
		}
	}
	check := func() {
		t.Helper()
		f := &recorder[*bool]{last: map[string]*bool{}}
		startWatch(t, func(ctx context.Context) error {
			return s.Watch(ctx, func(c deployment.Change) { f.record(c.Name, &c.DropWeights, c.Synced) })
		})
		f.until(t, "the listing", func() bool { return f.synced == 1 })
		f.mu.Lock()
		defer f.mu.Unlock()
		if !*f.last["dropped"] || *f.last["kept"] {
			t.Errorf("dropped: %v, kept: %v", *f.last["dropped"], *f.last["kept"])
		}
	}
	check()
	if err := s.client.Delete(t.Context(), Bucket); err != nil {
		t.Fatal(err)
	}
	if err := s.ensureRestored(t.Context()); err != nil {
		t.Fatal(err)
	}
	check()
}

// TestReadDeploymentsOfEarlierVersions checks values that earlier versions stored. These omitted
// numbers that are 0, and no default other than these.
func TestReadDeploymentsOfEarlierVersions(t *testing.T) {
	s, _ := open(t)
	complete := func(replicas uint32) *messages.DeploymentSpec {
		return (&messages.DeploymentSpec{Name: "m", Path: "/p", Replicas: new(replicas)}).Complete()
	}
	for value, want := range map[string]*messages.DeploymentSpec{
		`{"name":"m","path":"/p","replicas":2,"priority":"PRIORITY_CLASS_BATCH","max_sequences":8,` +
			`"max_waiting":9,"step_tokens":96,"block_tokens":32,"min_replicas":1,"max_replicas":4}`: {
			Name: "m", Path: "/p", Priority: messages.Priority_PRIORITY_BATCH.Enum(),
			Replicas: new(uint32(2)), MinReplicas: new(uint32(1)), MaxReplicas: new(uint32(4)),
			MaxSequences: new(uint32(8)), MaxWaiting: new(uint32(9)), StepTokens: new(uint32(96)),
			BlockTokens: new(uint32(32)), KvBlocks: new(uint32(0)), AdapterPages: new(uint32(0)),
			MaxAdapters: new(uint32(32)), MaxAdapterRank: new(uint32(64)),
			IdleAfter: new(uint32(0)), WakeWait: new(uint32(0)),
			TensorParallel: new(uint32(1)), Pinned: new(false),
		},
		`{"name":"m","path":"/p","replicas":2}`: complete(2),
		`{"name":"m","path":"/p"}`:              complete(1),
	} {
		if _, err := s.kv.Put(t.Context(), "deployments.m", []byte(value)); err != nil {
			t.Fatal(err)
		}
		got, at, err := s.Get(t.Context(), "m")
		if err != nil || !proto.Equal(got, want) || schedule.RestOf(got.Bounds()) != schedule.Awake {
			t.Errorf("%s: %v, %v", value, got, err)
		}
		got.Replicas = new(uint32(0))
		if _, err = s.Put(t.Context(), got, at); err != nil {
			t.Fatal(err)
		}
		if got, _, err = s.Get(t.Context(), "m"); err != nil || schedule.RestOf(got.Bounds()) != schedule.Stopped {
			t.Errorf("stored with 0 replicas: %v, %v", got, err)
		}
	}
}
