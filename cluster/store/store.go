// Package store keeps the desired state in JetStream KV. The bucket `troupe` has these keys:
//
//   - `deployments.<name>`: deployments, as JSON
//   - `nodes.<name>`: what the operator requested for a node
//   - `adapters.<model>/<name>`: adapters
//   - `pins.<name>`: pinned prefixes
//   - `secrets.prefixes`: the cluster secret
//   - `settings.planner`: whether the planner is paused
//   - `canaries.<revision>.<hash>`: records of canaries, which are observed and not desired
//
// Invariants: a watch delivers the last value of every key, also after the connection or the server
// was lost, and may deliver a value twice. A change that fails was not made and will not be, unless
// its reason is REASON_OUTCOME_UNKNOWN.
//
// A confirmed change outlives all that the servers lose, as long as a node has it in memory or in its
// local copy. A bucket with several servers is restored if it was deleted; a bucket of a single server
// also if it lost its last revisions, for example with the power of its machine. A node notices that
// within a second, or when it connects again, and creates the bucket again. What other nodes have
// written to it meanwhile, without having seen the lost revisions, is compared by key:
//
//   - A change of a key that has lost nothing stays.
//   - Of a lost revision and a later change of its key the change stays, by the time at which the server
//     stored each; the lost revision had been replaced without having been read.
//   - If the time of the lost revision is not known, because no watch had delivered it yet or a clock was
//     set back, the lost revision stays, and the confirmed change of the other node is lost.
//   - A change that is confirmed while the bucket is being recreated may be lost likewise, if its key has
//     lost a revision.
//   - A node that has seen a lost revision refuses its own changes with REASON_OUTCOME_UNKNOWN until the
//     bucket is restored.
//
// If all that was lost is replaced by later changes of other keys before a node that knows it connects
// again, so often that no key has one of the lost revisions any longer, the loss is not noticed, and
// missing keys count as deleted.
package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"troupe/actors/model/deployment"
	"troupe/actors/supervise"
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

	operationHeader = "KV-Operation" // header of a deleted key
	operationDelete = "DEL"
)

// Errors that callers test for.
var (
	ErrNotFound = errors.New("not found")
	ErrConflict = errors.New("changed since it was read; read it again")
)

// Store is the desired state. It is safe for concurrent use.
type Store struct {
	client   bucket.Client
	kv       guarded
	replicas int
	log      zerolog.Logger
	rt       supervise.Runtime

	mirror   mirror
	precheck atomic.Pointer[func() error]
	lost     atomic.Bool
	compare  atomic.Bool // the connection was lost; compare the bucket with the mirror
	onEvent  atomic.Pointer[func(kind, detail string)]
	local    localCopy

	restoring   *supervise.Lock // held while the bucket is checked and restored
	lastFailure string          // guarded by restoring; the last logged failure

	mu            sync.Mutex
	watches       []*watch // those that run now
	pendingEvents []event  // events from before Run
}

// event holds the arguments of a call of Run's onEvent.
type event struct{ kind, detail string }

// Config configures a Store.
type Config struct {
	Replicas int // see bucket.Config
	// Folder is the folder of the local copy of the desired state. Empty keeps none. A write
	// through the Store returns after the copy has it and is synced to disk.
	Folder  string
	Copy    *backup.State // the state loaded from Folder; nil if there was none
	Log     zerolog.Logger
	Runtime supervise.Runtime // nil: supervise.System
}

// Open opens the bucket and creates it if it does not exist. It then restores from the copy what
// the bucket has lost.
func Open(ctx context.Context, c bucket.Client, cfg Config) (_ *Store, err error) {
	s := &Store{client: c, replicas: cfg.Replicas, log: cfg.Log, restoring: supervise.NewLock(cfg.Runtime),
		rt: supervise.OrSystem(cfg.Runtime)}
	s.local.start(s, cfg)
	if cfg.Copy != nil {
		s.mirror.advance(cfg.Copy.Revision)
	}
	info, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.reconcile(ctx, info.Created, cfg.Copy); err != nil {
		return nil, fmt.Errorf("KV bucket %s: %w", Bucket, err)
	}
	kv, err := bucket.OpenKV(ctx, c, s.config())
	if err != nil {
		return nil, err
	}
	s.kv = guarded{kv, s}
	return s, s.local.save(ctx)
}

func (s *Store) open(ctx context.Context) (*jetstream.StreamInfo, error) {
	return bucket.Open(ctx, s.client, s.config())
}

func (s *Store) config() bucket.Config {
	return bucket.Config{
		Name: Bucket, Description: "Desired state of a Troupe cluster", Replicas: s.replicas, Log: s.log,
		// Revisions of adapters identify KV blocks on disk, which outlive the bucket. A new bucket
		// therefore begins above all earlier revisions.
		FirstRevision: max(uint64(s.rt.Now().Unix()), s.mirror.lastRevision()+2*revisionGap),
	}
}

// Put replaces revision `over` of a deployment and returns the new revision. With 0 the deployment
// must not exist. Put returns ErrConflict if another revision is stored.
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
	return revision, s.syncPut(ctx, key, b, revision, err)
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

// List returns all deployments. It logs and skips values that it cannot decode.
func (s *Store) List(ctx context.Context) (all []*messages.DeploymentSpec, err error) {
	w, err := s.kv.Watch(ctx, deployments+">")
	if err != nil {
		return nil, err
	}
	defer func() { _ = w.Stop() }() // a lost connection has ended it
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case e := <-w.Updates():
			if e == nil {
				return all, nil
			}
			s.applyDeployment(e, func(c deployment.Change) {
				if c.Spec != nil { // not deleted
					all = append(all, c.Spec)
				}
			})
		}
	}
}

// Delete removes a deployment, or returns ErrNotFound. With drop, its replicas free their weights.
func (s *Store) Delete(ctx context.Context, name string, drop bool) error {
	if drop {
		return s.deleteAndDrop(ctx, name)
	}
	_, over, err := s.Get(ctx, name)
	if errors.Is(err, ErrNotFound) {
		return err
	}
	return s.syncDelete(ctx, deployments+name, over, s.kv.Delete(ctx, deployments+name, 0))
}

// dropped is the value of the marker of a deployment whose replicas free their weights. It is not
// stored in the deployment before, since a watch can miss a value that is deleted at once.
const dropped = "drop"

func (s *Store) deleteAndDrop(ctx context.Context, name string) error {
	key := deployments + name
	for range maxConflicts {
		e, err := s.kv.Get(ctx, key)
		if isMissing(err) {
			return fmt.Errorf("deployment %s: %w", name, ErrNotFound)
		}
		if err != nil {
			return err
		}
		if err = s.kv.mark(ctx, key, e.Revision(), dropped); !bucket.IsConflict(err) {
			return s.syncDelete(ctx, key, e.Revision(), err)
		}
	}
	return fmt.Errorf("deployment %s: %w", name, ErrConflict)
}

// Watch implements deployment.Store. It logs and skips values that it cannot decode.
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
			s.log.Error().Err(err).Msg("stored deployment skipped")
			return
		}
		change.Spec = spec
	} else {
		change.DropWeights = string(e.Value()) == dropped
	}
	apply(change)
}

func decodeDeployment(e jetstream.KeyValueEntry) (*messages.DeploymentSpec, error) {
	spec := &messages.DeploymentSpec{}
	if err := decodeEntry(e, spec); err != nil {
		return nil, err
	}
	if name := strings.TrimPrefix(e.Key(), deployments); spec.GetName() != name {
		return nil, fmt.Errorf("key %s stores a deployment named %q", e.Key(), spec.GetName())
	}
	return spec.Complete(), nil // earlier versions did not store zero values
}
