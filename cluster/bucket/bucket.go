// Package bucket opens JetStream KV buckets and creates missing ones. It is the only place that
// decides how many servers keep a bucket's values.
//
// Invariants: opening a bucket never removes copies of its values. Only the leader of an opened
// bucket answers reads of a key. A bucket is created only if JetStream answers that it does not
// exist, never if JetStream does not answer.
package bucket

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
)

// Config describes a bucket. Each key keeps its last value, in a file store.
type Config struct {
	Name, Description string
	// Replicas is the number of servers that keep each value. With 0 an existing bucket keeps its
	// number, and a new one gets 3 in a NATS cluster and 1 otherwise.
	Replicas int
	// Republish is a subject prefix under which the server publishes every change. Empty disables
	// it.
	Republish string
	// FirstRevision is the revision of the first value in a new bucket.
	FirstRevision uint64
	Log           zerolog.Logger
	Runtime       supervise.Runtime // nil: supervise.System
}

const (
	attemptTimeout = 2 * time.Second
	retryInterval  = 100 * time.Millisecond
	retryTimeout   = 30 * time.Second // servers that form a cluster find each other within seconds
	// A server that deletes its last stream removes the folder of all streams in the background, and
	// fails to create a stream meanwhile. The same error tells of a disk that cannot be written.
	storeAttempts = 5

	// Error codes of nats-server that nats.go does not name.
	noSuitablePeers     jetstream.ErrorCode = 10005
	replicasUnsupported jetstream.ErrorCode = 10074 // the server is not clustered
	notReady            jetstream.ErrorCode = 10008
	insufficientSpace   jetstream.ErrorCode = 10023
	storeFailed         jetstream.ErrorCode = 10049
)

// Stream returns the name of the stream behind a bucket.
func Stream(name string) string { return "KV_" + name }

// Subject returns the subject of a key in the stream of a bucket.
func Subject(name, key string) string { return "$KV." + name + "." + key }

// Open opens a bucket and creates it if it does not exist. It returns its state. It retries while a
// cluster forms, until ctx ends or 30 s have passed.
func Open(ctx context.Context, c Client, cfg Config) (*jetstream.StreamInfo, error) {
	return retry(ctx, cfg, func(ctx context.Context) (*jetstream.StreamInfo, error) { return open(ctx, c, cfg) })
}

// OpenKV is like Open and returns the KV view of the bucket. It retries if the server that answers
// has not learned of the new bucket yet.
func OpenKV(ctx context.Context, c Client, cfg Config) (KeyValue, error) {
	return retry(ctx, cfg, func(ctx context.Context) (KeyValue, error) {
		if _, err := open(ctx, c, cfg); err != nil {
			return nil, err
		}
		return c.KeyValue(ctx, cfg.Name)
	})
}

func retry[T any](ctx context.Context, cfg Config, ask func(context.Context) (T, error)) (opened T, err error) {
	rt := supervise.OrSystem(cfg.Runtime)
	ctx, cancel := rt.WithTimeout(ctx, retryTimeout)
	defer cancel()
	for storesFailed := 0; ; {
		within, cancel := rt.WithTimeout(ctx, attemptTimeout)
		opened, err = ask(within)
		cancel()
		if err == nil {
			return opened, nil
		}
		again := IsTransient(err)
		if errorCode(err) == storeFailed {
			storesFailed++
			again = storesFailed < storeAttempts
		}
		if !again {
			return opened, fmt.Errorf("KV bucket %s: %w", cfg.Name, err)
		}
		select {
		case <-ctx.Done():
			return opened, fmt.Errorf("KV bucket %s: %w; are enough NATS servers running?", cfg.Name, err)
		case <-rt.After(retryInterval):
		}
	}
}

func open(ctx context.Context, c Client, cfg Config) (*jetstream.StreamInfo, error) {
	info, err := c.Info(ctx, cfg.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return create(ctx, c, cfg)
	}
	if err != nil {
		return nil, err
	}
	have := info.Config
	if have.Replicas >= cfg.Replicas && !have.AllowDirect {
		return info, nil
	}
	log := cfg.Log.Info().Str("bucket", cfg.Name)
	if have.Replicas < cfg.Replicas {
		have.Replicas = cfg.Replicas
		log = log.Int("replicas", cfg.Replicas)
	}
	if have.AllowDirect { // the default of nats.go and the nats command line
		have.AllowDirect = false
		log = log.Bool("allow_direct", false)
	}
	log.Msg("updating bucket")
	return c.Update(ctx, have)
}

// create creates the bucket as nats.go would, with settings that jetstream.KeyValueConfig lacks.
func create(ctx context.Context, c Client, cfg Config) (*jetstream.StreamInfo, error) {
	replicas := cfg.Replicas
	if replicas == 0 && c.Clustered() {
		replicas = 3
	}
	want := jetstream.StreamConfig{
		Name: Stream(cfg.Name), Description: cfg.Description, Subjects: []string{Subject(cfg.Name, ">")},
		MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, Storage: jetstream.FileStorage, Replicas: max(replicas, 1),
		AllowRollup: true, DenyDelete: true, FirstSeq: cfg.FirstRevision,
		// Only the leader answers reads. A follower may be behind.
		AllowDirect: false,
	}
	if cfg.Republish != "" {
		want.RePublish = &jetstream.RePublish{Source: Subject(cfg.Name, ">"), Destination: cfg.Republish + ".>"}
	}
	info, err := c.Create(ctx, want)
	if errorCode(err) == replicasUnsupported && cfg.Replicas == 0 {
		want.Replicas = 1
		info, err = c.Create(ctx, want)
	}
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return c.Info(ctx, cfg.Name) // another node created it first, with another configuration
	}
	return info, err
}

// IsTransient reports whether an error is due to a NATS cluster that is forming or electing a
// leader. The request may succeed a moment later. Such servers often do not answer at all, so
// callers should use short timeouts.
func IsTransient(err error) bool {
	switch errorCode(err) {
	case noSuitablePeers, notReady, insufficientSpace:
		return true
	}
	return errors.Is(err, nats.ErrNoResponders) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, nats.ErrTimeout) || errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err,
		jetstream.ErrBucketNotFound) ||
		errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrDisconnected)
}

func errorCode(err error) jetstream.ErrorCode {
	if api := (*jetstream.APIError)(nil); errors.As(err, &api) {
		return api.ErrorCode
	}
	return 0
}
