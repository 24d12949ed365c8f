package bucket

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/cluster/natsd"
)

func connect(t *testing.T) jetstream.JetStream {
	t.Helper()
	s, err := natsd.Start(t.Context(), natsd.Config{Listen: "127.0.0.1:0", StoreDir: t.TempDir(), Name: "test",
		Log: zerolog.Nop()})
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

func client(t *testing.T, js jetstream.JetStream) Client {
	t.Helper()
	c, err := NewClient(js.Conn(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestOpenIsIdempotent checks that the second Open finds the bucket of the first, and that it is an
// ordinary KV bucket.
func TestOpenIsIdempotent(t *testing.T) {
	js := connect(t)
	first, err := Open(t.Context(), client(t, js), Config{Name: "b", FirstRevision: 1000, Republish: "changes"})
	if err != nil {
		t.Fatal(err)
	}
	kv, err := js.KeyValue(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	changes, err := js.Conn().SubscribeSync("changes.>")
	if err != nil {
		t.Fatal(err)
	}
	if revision, err := kv.Put(t.Context(), "a.key", []byte("v")); err != nil || revision != 1000 {
		t.Errorf("first revision %d, %v", revision, err)
	}
	if msg, err := changes.NextMsgWithContext(t.Context()); err != nil || msg.Subject != "changes.a.key" ||
		msg.Header.Get("Nats-Sequence") != "1000" {
		t.Errorf("republished %v, %v", msg, err)
	}
	again, err := Open(t.Context(), client(t, js), Config{Name: "b", FirstRevision: 2000, Replicas: 1})
	if err != nil {
		t.Fatal(err)
	}
	if again.Created != first.Created {
		t.Error("the bucket was created again")
	}
	if e, err := kv.Get(t.Context(), "a.key"); err != nil || string(e.Value()) != "v" {
		t.Errorf("value %v, %v", e, err)
	}
	if got := first.Config.Replicas; got != 1 {
		t.Errorf("%d replicas on one server", got)
	}
}

// TestUnsupportedReplicasFailAtOnce checks that Open does not retry an error that persists.
func TestUnsupportedReplicasFailAtOnce(t *testing.T) {
	_, err := Open(t.Context(), client(t, connect(t)), Config{Name: "b", Replicas: 3})
	if errorCode(err) != replicasUnsupported {
		t.Errorf("got %v", err)
	}
}

// noWaits is a runtime in which a wait takes no time.
type noWaits struct{ supervise.Runtime }

func (r noWaits) After(time.Duration) <-chan time.Time {
	fired := make(chan time.Time, 1)
	fired <- r.Now()
	return fired
}

// fullDisk is a server that cannot create the folders of its next streams.
type fullDisk struct {
	Client
	failures int // left
}

func (d *fullDisk) Create(ctx context.Context, cfg jetstream.StreamConfig) (*jetstream.StreamInfo, error) {
	if d.failures--; d.failures >= 0 {
		return nil, &jetstream.APIError{Code: 500, ErrorCode: storeFailed}
	}
	return d.Client.Create(ctx, cfg)
}

// TestStoreFailureIsRetried checks that Open tries again a few times if the server cannot create
// the folder of the bucket, as while it removes the folders of a deleted one.
func TestStoreFailureIsRetried(t *testing.T) {
	connection := client(t, connect(t))
	for failures, want := range map[int]jetstream.ErrorCode{storeAttempts - 1: 0, storeAttempts: storeFailed} {
		disk := &fullDisk{connection, failures}
		_, err := Open(t.Context(), disk, Config{Name: fmt.Sprint("b", failures), Runtime: noWaits{supervise.System}})
		if errorCode(err) != want || (err == nil) != (want == 0) {
			t.Errorf("after %d failures: %v", failures, err)
		}
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
		errors.New("other"):                                 false,
	} {
		if got := IsTransient(err); got != want {
			t.Errorf("%v: %v", err, got)
		}
	}
	if IsTransient(nil) {
		t.Error("nil is transient")
	}
}

// TestDirectReadsAreOff checks that only the leader answers reads of a key: no server answers the
// direct reads that followers could answer with an older value. That holds for new buckets and for
// those that were created with direct reads.
func TestDirectReadsAreOff(t *testing.T) {
	js := connect(t)
	if _, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "earlier"}); err != nil {
		t.Fatal(err)
	}
	if err := directRead(t, js, "earlier"); err != nil {
		t.Fatalf("a bucket of nats.go: %v", err)
	}
	for _, name := range []string{"earlier", "new"} {
		info, err := Open(t.Context(), client(t, js), Config{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		if info.Config.AllowDirect {
			t.Errorf("bucket %s allows direct reads", name)
		}
		if err := directRead(t, js, name); !errors.Is(err, nats.ErrNoResponders) {
			t.Errorf("direct read of bucket %s: %v, want %v", name, err, nats.ErrNoResponders)
		}
	}
}

// directRead reads a key in the way that any server with a copy of the bucket may answer.
func directRead(t *testing.T, js jetstream.JetStream, name string) error {
	t.Helper()
	_, err := js.Conn().
		RequestWithContext(t.Context(), "$JS.API.DIRECT.GET."+Stream(name)+"."+Subject(name, "key"), nil)
	return err
}
