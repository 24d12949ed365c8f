// Package bucket opens KV buckets of JetStream, and makes those that are not there: the one place that says on how many
// servers their values are kept.
//
// Invariants: opening a bucket never takes copies of its values away; a bucket is only made where JetStream says that there
// is none, never where it could not be asked.
package bucket

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
)

// Config describes a bucket. Each key keeps its last value, in a file store.
type Config struct {
	Name, Description string
	// Replicas is how many servers keep each value. 0: as many as the bucket has, and where it is made, 3 of a NATS cluster
	// and 1 otherwise.
	Replicas int
	// Republish, where it is not empty, is a prefix of subjects under which every change is published as it happens.
	Republish string
	// FirstRevision is that of the first value, where the bucket is made.
	FirstRevision uint64
	Log           zerolog.Logger
}

const (
	attemptTimeout = 2 * time.Second
	retryInterval  = 100 * time.Millisecond
	retryTimeout   = 30 * time.Second // servers that form a cluster know each other after a few seconds

	// Codes of nats-server that nats.go has no names for.
	noSuitablePeers     jetstream.ErrorCode = 10005
	replicasUnsupported jetstream.ErrorCode = 10074 // the server stands alone
	notReady            jetstream.ErrorCode = 10008
	insufficientSpace   jetstream.ErrorCode = 10023
)

// Stream is the name of the stream that a bucket is kept in.
func Stream(name string) string { return "KV_" + name }

// Subject is that of a key's changes in the stream.
func Subject(name, key string) string { return "$KV." + name + "." + key }

// Open opens a bucket, and makes it where there is none. While a cluster forms it tries again, until ctx ends or 30 s are over.
func Open(ctx context.Context, js jetstream.JetStream, cfg Config) (jetstream.Stream, error) {
	return retry(ctx, cfg, func(ctx context.Context) (jetstream.Stream, error) { return open(ctx, js, cfg) })
}

// OpenKV is Open, for whom nats.go's own view of a bucket is enough. The server that is asked may hear of a new bucket a moment after the one
// that made it.
func OpenKV(ctx context.Context, js jetstream.JetStream, cfg Config) (jetstream.KeyValue, error) {
	return retry(ctx, cfg, func(ctx context.Context) (jetstream.KeyValue, error) {
		if _, err := open(ctx, js, cfg); err != nil {
			return nil, err
		}
		return js.KeyValue(ctx, cfg.Name)
	})
}

func retry[T any](ctx context.Context, cfg Config, ask func(context.Context) (T, error)) (opened T, err error) {
	ctx, cancel := context.WithTimeout(ctx, retryTimeout)
	defer cancel()
	for {
		within, cancel := context.WithTimeout(ctx, attemptTimeout)
		opened, err = ask(within)
		cancel()
		if err == nil {
			return opened, nil
		}
		if !IsTransient(err) {
			return opened, fmt.Errorf("KV bucket %s: %w", cfg.Name, err)
		}
		select {
		case <-ctx.Done():
			return opened, fmt.Errorf("KV bucket %s: %w; are enough NATS servers running?", cfg.Name, err)
		case <-time.After(retryInterval):
		}
	}
}

func open(ctx context.Context, js jetstream.JetStream, cfg Config) (jetstream.Stream, error) {
	stream, err := js.Stream(ctx, Stream(cfg.Name))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return create(ctx, js, cfg)
	}
	if err != nil {
		return nil, err
	}
	if have := stream.CachedInfo().Config; have.Replicas < cfg.Replicas {
		have.Replicas = cfg.Replicas
		cfg.Log.Info().Str("bucket", cfg.Name).Int("replicas", cfg.Replicas).Msg("values are copied to more NATS servers")
		return js.UpdateStream(ctx, have)
	}
	return stream, nil
}

// create makes the bucket as nats.go would, but for what its own configuration of buckets can not say.
func create(ctx context.Context, js jetstream.JetStream, cfg Config) (jetstream.Stream, error) {
	replicas := cfg.Replicas
	if replicas == 0 && js.Conn().ConnectedClusterName() != "" {
		replicas = 3
	}
	want := jetstream.StreamConfig{
		Name: Stream(cfg.Name), Description: cfg.Description, Subjects: []string{Subject(cfg.Name, ">")},
		MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, Storage: jetstream.FileStorage, Replicas: max(replicas, 1),
		AllowRollup: true, DenyDelete: true, FirstSeq: cfg.FirstRevision,
		// Reads are answered by the leader alone: those of a follower may be old.
		AllowDirect: false,
	}
	if cfg.Republish != "" {
		want.RePublish = &jetstream.RePublish{Source: Subject(cfg.Name, ">"), Destination: cfg.Republish + ".>"}
	}
	stream, err := js.CreateStream(ctx, want)
	if errorCode(err) == replicasUnsupported && cfg.Replicas == 0 {
		want.Replicas = 1
		stream, err = js.CreateStream(ctx, want)
	}
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return js.Stream(ctx, want.Name) // somebody else was quicker, and had other words for it
	}
	return stream, err
}

// IsTransient reports whether an error is that of a NATS cluster that forms, or elects a leader: the same question may be answered
// a moment later. Such servers often do not answer at all, so ask with short times.
func IsTransient(err error) bool {
	switch errorCode(err) {
	case noSuitablePeers, notReady, insufficientSpace:
		return true
	}
	return errors.Is(err, nats.ErrNoResponders) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) ||
		errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrBucketNotFound) ||
		errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrDisconnected)
}

func errorCode(err error) jetstream.ErrorCode {
	if api := (*jetstream.APIError)(nil); errors.As(err, &api) {
		return api.ErrorCode
	}
	return 0
}
