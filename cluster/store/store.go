// Package store keeps the desired state in JetStream KV: the bucket `troupe`, deployments as JSON under `deployments.<name>`,
// what is asked of nodes under `nodes.<name>`, adapters under `adapters.<model>/<name>`, pinned prefixes under `pins.<name>`,
// and the cluster secret under `secrets.prefixes`.
//
// Invariants: a watch tells the last value of every key, also after the connection or the server was lost meanwhile; it may
// tell one twice. A change that fails was not made, and will not be, unless its reason is REASON_OUTCOME_UNKNOWN.
package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"troupe/actors/model/deployment"
	"troupe/cluster/backup"
	"troupe/cluster/bucket"
	"troupe/messages"
)

// Bucket is the name of the KV bucket.
const Bucket = "troupe"

const (
	deployments = "deployments."
	nodes       = "nodes."
	pins        = "pins."

	operationHeader = "KV-Operation" // header of a key that is deleted
	operationDelete = "DEL"
)

// Errors that callers branch on.
var (
	ErrNotFound = errors.New("not found")
	ErrConflict = errors.New("it was changed meanwhile; read it again")
)

// Store is the desired state. It is safe for concurrent use.
type Store struct {
	js       jetstream.JetStream
	kv       jetstream.KeyValue // guarded
	stream   jetstream.Stream
	conn     *nats.Conn
	replicas int
	log      zerolog.Logger

	mirror   mirror
	precheck atomic.Pointer[func() error]
	lost     atomic.Bool
	onEvent  atomic.Pointer[func(kind, detail string)]
	local    localCopy

	restoring   sync.Mutex // held while the bucket is checked, and restored
	lastFailure string     // guarded by restoring; what was logged last

	mu            sync.Mutex
	rewatch       chan struct{} // closed when all watches must begin again
	pendingEvents []event       // before Keep was called
}

// event is what Keep's tell is called with.
type event struct{ kind, detail string }

// Config says how a store is opened.
type Config struct {
	Replicas int // as of bucket.Config
	// Folder is where a copy of the desired state is kept; empty: none. What is written through the Store is
	// in it, and on the disk, before the write returns.
	Folder string
	Copy   *backup.State // as it was loaded from Folder; nil: there was none
	Log    zerolog.Logger
}

// Open opens the bucket, and makes it where it is not there yet. What the bucket has lost of the copy is
// restored first.
func Open(ctx context.Context, js jetstream.JetStream, cfg Config) (_ *Store, err error) {
	s := &Store{js: js, conn: js.Conn(), replicas: cfg.Replicas, log: cfg.Log, rewatch: make(chan struct{})}
	s.local.start(s, cfg)
	if cfg.Copy != nil {
		s.mirror.advance(cfg.Copy.Revision)
	}
	if s.stream, err = s.open(ctx); err != nil {
		return nil, err
	}
	if err := s.reconcile(ctx, cfg.Copy); err != nil {
		return nil, fmt.Errorf("KV bucket %s: %w", Bucket, err)
	}
	kv, err := bucket.OpenKV(ctx, js, s.config())
	if err != nil {
		return nil, err
	}
	s.kv = guarded{kv, s}
	return s, s.local.save(ctx)
}

func (s *Store) open(ctx context.Context) (jetstream.Stream, error) {
	return bucket.Open(ctx, s.js, s.config())
}

func (s *Store) config() bucket.Config {
	return bucket.Config{
		Name: Bucket, Description: "Desired state of a Troupe cluster", Replicas: s.replicas, Log: s.log,
		// KV blocks on disk outlive the bucket and are known by revisions of adapters, so one that is made again begins above.
		FirstRevision: max(uint64(time.Now().Unix()), s.mirror.lastRevision()+2*revisionGap),
	}
}

// Put stores a deployment over a revision and returns the new one; 0: there must be none. Where another revision is
// stored it returns ErrConflict.
func (s *Store) Put(ctx context.Context, spec *messages.DeploymentSpec, over uint64) (revision uint64, err error) {
	b, err := encode(spec)
	if err != nil {
		return 0, err
	}
	key := deployments + spec.GetName()
	if over == 0 {
		revision, err = s.kv.Create(ctx, key, b)
	} else {
		revision, err = s.kv.Update(ctx, key, b, over)
	}
	if errors.Is(err, jetstream.ErrKeyExists) || errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		return 0, fmt.Errorf("deployment %s at revision %d: %w", spec.GetName(), over, ErrConflict)
	}
	return revision, s.syncCopy(ctx, key, err)
}

// Get returns a deployment and its revision, or ErrNotFound.
func (s *Store) Get(ctx context.Context, name string) (*messages.DeploymentSpec, uint64, error) {
	e, err := s.kv.Get(ctx, deployments+name)
	if isMissing(err) {
		return nil, 0, fmt.Errorf("deployment %s: %w", name, ErrNotFound)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("deployment %s: %w", name, err)
	}
	spec, err := decodeDeployment(e)
	return spec, e.Revision(), err
}

// List returns all deployments. A value that can not be read is logged and passed over.
func (s *Store) List(ctx context.Context) (all []*messages.DeploymentSpec, err error) {
	w, err := s.kv.Watch(ctx, deployments+">", jetstream.IgnoreDeletes())
	if err != nil {
		return nil, err
	}
	defer func() { _ = w.Stop() }() // of a lost connection it is gone already
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case e := <-w.Updates():
			if e == nil {
				return all, nil
			}
			s.applyDeployment(e, func(c deployment.Change) { all = append(all, c.Spec) })
		}
	}
}

// Delete removes a deployment, or returns ErrNotFound.
func (s *Store) Delete(ctx context.Context, name string) error {
	if _, _, err := s.Get(ctx, name); errors.Is(err, ErrNotFound) {
		return err
	}
	return s.syncCopy(ctx, deployments+name, s.kv.Delete(ctx, deployments+name))
}

// Watch implements deployment.Store. A value that can not be read is logged and passed over.
func (s *Store) Watch(ctx context.Context, apply func(deployment.Change)) error {
	return s.watch(ctx, deployments, func(e jetstream.KeyValueEntry) {
		if e == nil {
			apply(deployment.Change{Synced: true})
			return
		}
		s.applyDeployment(e, apply)
	})
}

func (s *Store) applyDeployment(e jetstream.KeyValueEntry, apply func(deployment.Change)) {
	change := deployment.Change{Name: strings.TrimPrefix(e.Key(), deployments), Revision: e.Revision()}
	if e.Operation() == jetstream.KeyValuePut {
		spec, err := decodeDeployment(e)
		if err != nil {
			s.log.Error().Err(err).Msg("stored deployment passed over")
			return
		}
		change.Spec = spec
	}
	apply(change)
}

func decodeDeployment(e jetstream.KeyValueEntry) (*messages.DeploymentSpec, error) {
	spec := &messages.DeploymentSpec{}
	if err := decodeEntry(e, spec); err != nil {
		return nil, err
	}
	if name := strings.TrimPrefix(e.Key(), deployments); spec.GetName() != name {
		return nil, fmt.Errorf("key %s holds a deployment named %q", e.Key(), spec.GetName())
	}
	return spec.Complete(), nil // earlier versions stored no value that is 0
}
