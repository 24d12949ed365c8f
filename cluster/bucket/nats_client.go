package bucket

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"troupe/actors/supervise"
)

// natsClient implements Client with a connection to NATS.
type natsClient struct {
	js jetstream.JetStream
	rt supervise.Runtime

	mu      sync.Mutex
	streams map[string]jetstream.Stream // by bucket; they stay valid if the bucket is created again
}

// NewClient returns the Client of a connection. nil stands for supervise.System.
func NewClient(conn *nats.Conn, rt supervise.Runtime) (Client, error) {
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, err
	}
	return &natsClient{js: js, rt: supervise.OrSystem(rt), streams: make(map[string]jetstream.Stream)}, nil
}

// Connected implements Client.
func (c *natsClient) Connected() bool { return c.js.Conn().IsConnected() }

// Clustered implements Client.
func (c *natsClient) Clustered() bool { return c.js.Conn().ConnectedClusterName() != "" }

// OnConnected implements Client.
func (c *natsClient) OnConnected(f func()) (stop func()) {
	connected := c.js.Conn().StatusChanged(nats.CONNECTED)
	c.rt.Go(func() {
		for range connected { // closed by stop, or with the connection
			f()
		}
	})
	return func() { c.js.Conn().RemoveStatusListener(connected) }
}

// Subscribe implements Client.
func (c *natsClient) Subscribe(subject string, f func(*nats.Msg)) (Subscription, error) {
	return c.js.Conn().Subscribe(subject, f)
}

// Info implements Client.
func (c *natsClient) Info(ctx context.Context, bucket string) (*jetstream.StreamInfo, error) {
	return c.keep(c.js.Stream(ctx, Stream(bucket)))
}

// Create implements Client.
func (c *natsClient) Create(ctx context.Context, cfg jetstream.StreamConfig) (*jetstream.StreamInfo, error) {
	return c.keep(c.js.CreateStream(ctx, cfg))
}

// Update implements Client.
func (c *natsClient) Update(ctx context.Context, cfg jetstream.StreamConfig) (*jetstream.StreamInfo, error) {
	return c.keep(c.js.UpdateStream(ctx, cfg))
}

// keep keeps a stream and returns its state.
func (c *natsClient) keep(stream jetstream.Stream, err error) (*jetstream.StreamInfo, error) {
	if err != nil {
		return nil, err
	}
	info := stream.CachedInfo()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.streams[info.Config.Name] = stream
	return info, nil
}

// stream returns the stream of a bucket, which may be gone by now.
func (c *natsClient) stream(ctx context.Context, bucket string) (jetstream.Stream, error) {
	c.mu.Lock()
	stream := c.streams[Stream(bucket)]
	c.mu.Unlock()
	if stream != nil {
		return stream, nil
	}
	return c.js.Stream(ctx, Stream(bucket))
}

// Delete implements Client.
func (c *natsClient) Delete(ctx context.Context, bucket string) error {
	return c.js.DeleteStream(ctx, Stream(bucket))
}

// Keys implements Client.
func (c *natsClient) Keys(ctx context.Context, bucket string) (keys []string, last uint64, err error) {
	stream, err := c.stream(ctx, bucket)
	if err != nil {
		return nil, 0, err
	}
	prefix := Subject(bucket, "")
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(prefix+">"))
	if err != nil {
		return nil, 0, err
	}
	for _, subject := range slices.Sorted(maps.Keys(info.State.Subjects)) {
		keys = append(keys, strings.TrimPrefix(subject, prefix))
	}
	return keys, info.State.LastSeq, nil
}

// Last implements Client.
func (c *natsClient) Last(ctx context.Context, bucket, key string) (*jetstream.RawStreamMsg, error) {
	stream, err := c.stream(ctx, bucket)
	if err != nil {
		return nil, err
	}
	return stream.GetLastMsgForSubject(ctx, Subject(bucket, key))
}

// Write implements Client.
func (c *natsClient) Write(ctx context.Context, bucket, key string, v Value, over uint64) (uint64, error) {
	msg := &nats.Msg{Subject: Subject(bucket, key), Header: maps.Clone(v.Header), Data: v.Data}
	if msg.Header == nil {
		msg.Header = nats.Header{}
	}
	ack, err := c.js.PublishMsg(ctx, msg,
		jetstream.WithExpectLastSequencePerSubject(over), jetstream.WithRetryAttempts(0))
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// Purge implements Client.
func (c *natsClient) Purge(ctx context.Context, bucket string, next uint64) error {
	stream, err := c.stream(ctx, bucket)
	if err != nil {
		return err
	}
	return stream.Purge(ctx, jetstream.WithPurgeSequence(next))
}

// KeyValue implements Client.
func (c *natsClient) KeyValue(ctx context.Context, bucket string) (KeyValue, error) {
	kv, err := c.js.KeyValue(ctx, bucket)
	if err != nil {
		return nil, err
	}
	return natsKV{kv}, nil
}

// natsKV implements KeyValue.
type natsKV struct{ kv jetstream.KeyValue }

// Get implements KeyValue.
func (k natsKV) Get(ctx context.Context, key string) (jetstream.KeyValueEntry, error) {
	return k.kv.Get(ctx, key)
}

// Put implements KeyValue.
func (k natsKV) Put(ctx context.Context, key string, value []byte) (uint64, error) {
	return k.kv.Put(ctx, key, value)
}

// Create implements KeyValue.
func (k natsKV) Create(ctx context.Context, key string, value []byte) (uint64, error) {
	return k.kv.Create(ctx, key, value)
}

// Update implements KeyValue.
func (k natsKV) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	return k.kv.Update(ctx, key, value, revision)
}

// Delete implements KeyValue.
func (k natsKV) Delete(ctx context.Context, key string, revision uint64) error {
	if revision == 0 {
		return k.kv.Delete(ctx, key)
	}
	return k.kv.Delete(ctx, key, jetstream.LastRevision(revision))
}

// Watch implements KeyValue.
func (k natsKV) Watch(ctx context.Context, keys string) (jetstream.KeyWatcher, error) {
	return k.kv.Watch(ctx, keys)
}

// IsConflict reports whether an error says that a key has another revision than was expected.
func IsConflict(err error) bool {
	api := (*jetstream.APIError)(nil)
	return errors.As(err, &api) && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
		api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}
