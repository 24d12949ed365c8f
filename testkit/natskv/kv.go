package natskv

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"troupe/actors/supervise"
	"troupe/cluster/bucket"
)

const (
	operationHeader = "KV-Operation"
	operationDelete = "DEL"
)

var validKey = regexp.MustCompile(`^[-/_=a-zA-Z0-9]+(\.[-/_=a-zA-Z0-9]+)*$`)

// KeyValue implements bucket.Client.
func (c *Client) KeyValue(ctx context.Context, name string) (bucket.KeyValue, error) {
	_, err := c.Info(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, jetstream.ErrBucketNotFound
	}
	if err != nil {
		return nil, err
	}
	return &kv{c, name}, nil
}

// kv implements bucket.KeyValue with the same requests as nats.go.
type kv struct {
	client *Client
	name   string
}

// Get implements bucket.KeyValue.
func (k *kv) Get(ctx context.Context, key string) (jetstream.KeyValueEntry, error) {
	if !validKey.MatchString(key) {
		return nil, jetstream.ErrInvalidKey
	}
	m, err := k.client.Last(ctx, k.name, key)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, jetstream.ErrKeyNotFound
	}
	if err != nil {
		return nil, err
	}
	if e := (&entry{k.name, m}); e.Operation() == jetstream.KeyValuePut {
		return e, nil
	}
	return nil, jetstream.ErrKeyNotFound
}

func (k *kv) write(ctx context.Context, key string, v bucket.Value, over uint64) (uint64, error) {
	if !validKey.MatchString(key) {
		return 0, jetstream.ErrInvalidKey
	}
	return k.client.Write(ctx, k.name, key, v, over)
}

// Put implements bucket.KeyValue.
func (k *kv) Put(ctx context.Context, key string, value []byte) (uint64, error) {
	return k.write(ctx, key, bucket.Value{Data: value}, anyRevision)
}

// Create implements bucket.KeyValue.
func (k *kv) Create(ctx context.Context, key string, value []byte) (uint64, error) {
	revision, err := k.write(ctx, key, bucket.Value{Data: value}, 0)
	if err == nil {
		return revision, nil
	}
	m, missing := k.client.Last(ctx, k.name, key)
	if missing == nil && (&entry{k.name, m}).Operation() != jetstream.KeyValuePut {
		return k.write(ctx, key, bucket.Value{Data: value}, m.Sequence)
	}
	if bucket.IsConflict(err) {
		return 0, fmt.Errorf("%w: %w", err, jetstream.ErrKeyExists)
	}
	return 0, err
}

// Update implements bucket.KeyValue.
func (k *kv) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	revision, err := k.write(ctx, key, bucket.Value{Data: value}, revision)
	return revision, mismatch(err)
}

// Delete implements bucket.KeyValue.
func (k *kv) Delete(ctx context.Context, key string, revision uint64) error {
	if revision == 0 {
		revision = anyRevision
	}
	_, err := k.write(ctx, key, bucket.Value{Header: nats.Header{operationHeader: {operationDelete}}}, revision)
	return mismatch(err)
}

func mismatch(err error) error {
	if bucket.IsConflict(err) {
		return fmt.Errorf("%w: %w", err, jetstream.ErrKeyRevisionMismatch)
	}
	return err
}

// entry implements jetstream.KeyValueEntry.
type entry struct {
	bucket string
	m      *jetstream.RawStreamMsg
}

// Bucket implements jetstream.KeyValueEntry.
func (e *entry) Bucket() string { return e.bucket }

// Key implements jetstream.KeyValueEntry.
func (e *entry) Key() string { return strings.TrimPrefix(e.m.Subject, bucket.Subject(e.bucket, "")) }

// Value implements jetstream.KeyValueEntry.
func (e *entry) Value() []byte { return e.m.Data }

// Revision implements jetstream.KeyValueEntry.
func (e *entry) Revision() uint64 { return e.m.Sequence }

// Created implements jetstream.KeyValueEntry.
func (e *entry) Created() time.Time { return e.m.Time }

// Delta implements jetstream.KeyValueEntry. It is not known.
func (e *entry) Delta() uint64 { return 0 }

// Operation implements jetstream.KeyValueEntry.
func (e *entry) Operation() jetstream.KeyValueOp {
	if e.m.Header.Get(operationHeader) == operationDelete {
		return jetstream.KeyValueDelete
	}
	return jetstream.KeyValuePut
}

// watcher implements jetstream.KeyWatcher.
type watcher struct {
	client  *Client
	bucket  string
	subject string // ends with ">", or is that of one key
	flow    *flow
	updates chan jetstream.KeyValueEntry
	stopped chan struct{}
	sending *supervise.Lock
}

// Watch implements bucket.KeyValue.
func (k *kv) Watch(ctx context.Context, keys string) (jetstream.KeyWatcher, error) {
	c := k.client
	return ask(ctx, c, false, func() (jetstream.KeyWatcher, error) {
		w := &watcher{client: c, bucket: k.name, subject: bucket.Subject(k.name, keys), flow: c.newFlow(),
			updates: make(chan jetstream.KeyValueEntry, 256), stopped: make(chan struct{}),
			sending: supervise.NewLock(c.rt)}
		if err := c.server.watch(bucket.Stream(k.name), w); err != nil {
			return nil, err
		}
		c.watchers = append(c.watchers, w)
		return w, nil
	})
}

func (w *watcher) matches(m *jetstream.RawStreamMsg) bool {
	if prefix, ok := strings.CutSuffix(w.subject, ">"); ok {
		return strings.HasPrefix(m.Subject, prefix)
	}
	return m.Subject == w.subject
}

// send sends a message to the watch, if it matches. The caller holds mu, as with sendEnd and end.
func (w *watcher) send(m *jetstream.RawStreamMsg) {
	if w.matches(m) {
		w.flow.send(func() { w.deliver(&entry{w.bucket, m}) })
	}
}

// sendEnd marks the end of the values that were stored when the watch began.
func (w *watcher) sendEnd() { w.flow.send(func() { w.deliver(nil) }) }

func (w *watcher) deliver(e jetstream.KeyValueEntry) {
	w.sending.Lock()
	defer w.sending.Unlock()
	if w.isStopped() {
		return
	}
	select {
	case <-w.stopped:
	case w.updates <- e:
	}
}

func (w *watcher) isStopped() bool {
	select {
	case <-w.stopped:
		return true
	default:
		return false
	}
}

// Updates implements jetstream.KeyWatcher.
func (w *watcher) Updates() <-chan jetstream.KeyValueEntry { return w.updates }

// Stop implements jetstream.KeyWatcher.
func (w *watcher) Stop() error {
	w.client.server.mu.Lock()
	defer w.client.server.mu.Unlock()
	w.end()
	return nil
}

// end ends the watch. Its channel is closed after the last delivery.
func (w *watcher) end() {
	if w.isStopped() {
		return
	}
	close(w.stopped)
	c := w.client
	w.flow.ignored = true
	c.flows = slices.DeleteFunc(c.flows, func(f *flow) bool { return f == w.flow })
	c.watchers = slices.DeleteFunc(slices.Clone(c.watchers), func(other *watcher) bool { return other == w })
	if st := c.server.streams[bucket.Stream(w.bucket)]; st != nil {
		st.watches = slices.DeleteFunc(st.watches, func(other *watcher) bool { return other == w })
	}
	c.rt.Go(func() {
		w.sending.Lock()
		defer w.sending.Unlock()
		close(w.updates)
	})
}
