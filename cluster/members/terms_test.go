package members

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"troupe/cluster/bucket"
	"troupe/messages"
)

// TestTermsGrowInNewBucket: terms of a bucket that is made again are above all that were seen, whatever the
// clock says.
func TestTermsGrowInNewBucket(t *testing.T) {
	s := startServer(t)
	conn, err := s.server.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	ahead := uint64(time.Now().Add(24 * time.Hour).UnixMicro()) // it was made by a node whose clock was a day ahead
	if _, err := openBucket(t.Context(), js, 0, ahead, zerolog.Nop()); err != nil {
		t.Fatal(err)
	}
	told := make(chan string, 10)
	m, err := Open(t.Context(), js, Config{
		Name: "a", RenewEvery: 60 * time.Millisecond, Log: zerolog.Nop(), OnEvent: func(kind, _ string) { told <- kind },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := m.Join(t.Context(), "127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	term := acquire(t, m)
	if term <= ahead {
		t.Fatalf("term %d in a bucket that begins at %d", term, ahead)
	}
	if err := js.DeleteStream(t.Context(), bucket.Stream(Bucket)); err != nil {
		t.Fatal(err)
	}
	if kind := <-told; kind != "members.lost" {
		t.Error(kind)
	}
	if kind := <-told; kind != "members.restored" || m.BucketLost() {
		t.Error(kind, m.BucketLost())
	}
	if again := acquire(t, m); again <= term {
		t.Errorf("term %d after %d", again, term)
	}
	if live := m.Live(); len(live) != 1 || live[0].GetState() != messages.MemberState_MEMBER_STATE_UP {
		t.Errorf("%v", live)
	}
}

// acquire takes a role, once the node is a member whose lease of the bucket before is forgotten.
func acquire(t *testing.T, m *Members) uint64 {
	t.Helper()
	for {
		e, err := m.kv.get(t.Context(), leaseKey("r"))
		if err == nil {
			term, ok, err := m.Acquire(t.Context(), "r")
			if after, _ := m.kv.get(t.Context(), leaseKey("r")); err == nil && ok && after.revision == term && e.revision <= term {
				return term
			}
		}
		select {
		case <-t.Context().Done():
			t.Fatal("no lease")
		case <-time.After(5 * time.Millisecond):
		}
	}
}
