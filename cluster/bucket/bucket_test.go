package bucket

import (
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"troupe/cluster/natsd"
)

func connect(t *testing.T) jetstream.JetStream {
	t.Helper()
	s, err := natsd.Start(t.Context(), natsd.Config{Listen: "127.0.0.1:0", StoreDir: t.TempDir(), Name: "test", Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	conn, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// TestOpenIsIdempotent checks that a bucket is made once, and is an ordinary KV bucket.
func TestOpenIsIdempotent(t *testing.T) {
	js := connect(t)
	first, err := Open(t.Context(), js, Config{Name: "b", FirstRevision: 1000, Republish: "changes"})
	if err != nil {
		t.Fatal(err)
	}
	kv, err := js.KeyValue(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	told, err := js.Conn().SubscribeSync("changes.>")
	if err != nil {
		t.Fatal(err)
	}
	if revision, err := kv.Put(t.Context(), "a.key", []byte("v")); err != nil || revision != 1000 {
		t.Errorf("first revision %d, %v", revision, err)
	}
	if msg, err := told.NextMsgWithContext(t.Context()); err != nil || msg.Subject != "changes.a.key" || msg.Header.Get("Nats-Sequence") != "1000" {
		t.Errorf("told %v, %v", msg, err)
	}
	again, err := Open(t.Context(), js, Config{Name: "b", FirstRevision: 2000, Replicas: 1})
	if err != nil {
		t.Fatal(err)
	}
	if again.CachedInfo().Created != first.CachedInfo().Created {
		t.Error("it was made again")
	}
	if e, err := kv.Get(t.Context(), "a.key"); err != nil || string(e.Value()) != "v" {
		t.Errorf("its value: %v, %v", e, err)
	}
	if got := first.CachedInfo().Config.Replicas; got != 1 {
		t.Errorf("%d replicas on one server", got)
	}
}

// TestUnsupportedReplicasFailAtOnce: what will never work is said at once.
func TestUnsupportedReplicasFailAtOnce(t *testing.T) {
	_, err := Open(t.Context(), connect(t), Config{Name: "b", Replicas: 3})
	if errorCode(err) != replicasUnsupported {
		t.Errorf("got %v", err)
	}
}

func TestIsTransient(t *testing.T) {
	for err, want := range map[error]bool{
		&jetstream.APIError{ErrorCode: noSuitablePeers}:     true,
		&jetstream.APIError{ErrorCode: replicasUnsupported}: false,
		nats.ErrNoResponders:                                true,
		context.DeadlineExceeded:                            true,
		jetstream.ErrBucketNotFound:                         true,
		jetstream.ErrNoStreamResponse:                       true,
		nats.ErrAuthorization:                               false,
		errors.New("else"):                                  false,
	} {
		if got := IsTransient(err); got != want {
			t.Errorf("%v: %v", err, got)
		}
	}
	if IsTransient(nil) {
		t.Error("success is not waited for")
	}
}
