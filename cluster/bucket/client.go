package bucket

import (
	"context"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Client is the access to the buckets of a cluster. NewClient returns the one for a connection to
// NATS. Another one, in memory, is in testkit/natskv, where a test checks that both behave alike.
// Errors are those of nats.go.
type Client interface {
	// Connected reports whether the connection stands, as far as is known.
	Connected() bool
	// Clustered reports whether the server is part of a NATS cluster.
	Clustered() bool
	// OnConnected calls f each time that a lost connection is back, until stop is called. Changes
	// may have been missed then, and watches have ended.
	OnConnected(f func()) (stop func())
	// Subscribe calls f for each message to a subject, one at a time and in order.
	Subscribe(subject string, f func(*nats.Msg)) (Subscription, error)

	// Info returns the state of a bucket, or jetstream.ErrStreamNotFound.
	Info(ctx context.Context, bucket string) (*jetstream.StreamInfo, error)
	// Create creates the stream of a bucket.
	Create(ctx context.Context, cfg jetstream.StreamConfig) (*jetstream.StreamInfo, error)
	// Update changes the settings of a bucket's stream.
	Update(ctx context.Context, cfg jetstream.StreamConfig) (*jetstream.StreamInfo, error)
	// Delete deletes a bucket.
	Delete(ctx context.Context, bucket string) error
	// Keys returns the keys of a bucket, including deleted ones, in order, and its last revision.
	Keys(ctx context.Context, bucket string) (keys []string, last uint64, err error)
	// Last returns the last value of a key, or jetstream.ErrMsgNotFound.
	Last(ctx context.Context, bucket, key string) (*jetstream.RawStreamMsg, error)
	// Write writes a value over a revision of its key, and returns the new revision. Revision 0
	// means that the key does not exist. If the key has another revision, IsConflict is true of the
	// error. Write never repeats the request.
	Write(ctx context.Context, bucket, key string, m Value, over uint64) (revision uint64, err error)
	// Purge removes all revisions before next, which becomes the next one if the last was before it.
	Purge(ctx context.Context, bucket string, next uint64) error
	// KeyValue opens the KV view of a bucket, or returns jetstream.ErrBucketNotFound.
	KeyValue(ctx context.Context, bucket string) (KeyValue, error)
}

// Value is a value to write. A header can mark it as a deletion.
type Value struct {
	Header nats.Header
	Data   []byte
}

// Subscription is a subscription to messages.
type Subscription interface {
	// Dropped returns the number of messages that were dropped because f was too slow.
	Dropped() (int, error)
	Unsubscribe() error
}

// KeyValue is the part of jetstream.KeyValue that is in use.
type KeyValue interface {
	Get(ctx context.Context, key string) (jetstream.KeyValueEntry, error)
	Put(ctx context.Context, key string, value []byte) (uint64, error)
	Create(ctx context.Context, key string, value []byte) (uint64, error)
	Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error)
	// Delete deletes a key that is at a revision, or at any one if it is 0.
	Delete(ctx context.Context, key string, revision uint64) error
	Watch(ctx context.Context, keys string) (jetstream.KeyWatcher, error)
}
