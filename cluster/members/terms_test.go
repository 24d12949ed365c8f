package members

import (
	"testing"
	"time"

	"github.com/rs/zerolog"

	"troupe/cluster/bucket"
	"troupe/messages"
)

// TestTermsGrowInNewBucket checks that the terms of a recreated bucket are above all earlier ones,
// even if a clock was ahead.
func TestTermsGrowInNewBucket(t *testing.T) {
	s := startServer(t)
	conn, err := s.server.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client, err := bucket.NewClient(conn, nil)
	if err != nil {
		t.Fatal(err)
	}
	// The clock of the node that created the bucket was a day ahead.
	ahead := uint64(s.clock.Now().Add(24 * time.Hour).UnixMicro())
	if _, err := openBucket(t.Context(), client, ahead, s.clock, zerolog.Nop()); err != nil {
		t.Fatal(err)
	}
	events := make(chan string, 10)
	m := s.open("a", func(c *Config) { c.OnEvent = func(kind, _ string) { events <- kind } })
	if err := m.join(t); err != nil {
		t.Fatal(err)
	}
	term := acquire(t, m)
	if term <= ahead {
		t.Fatalf("term %d in a bucket that begins at %d", term, ahead)
	}
	if err := client.Delete(t.Context(), Bucket); err != nil {
		t.Fatal(err)
	}
	m.until("the node is a member of a new bucket", func() bool { return len(events) == 2 })
	if kind := <-events; kind != "members.lost" {
		t.Error(kind)
	}
	if kind := <-events; kind != "members.restored" || m.BucketLost() {
		t.Error(kind, m.BucketLost())
	}
	if again := acquire(t, m); again <= term {
		t.Errorf("term %d after %d", again, term)
	}
	if live := m.Live(); len(live) != 1 || live[0].GetState() != messages.MemberState_MEMBER_STATE_UP {
		t.Errorf("%v", live)
	}
}

// acquire acquires a role, once the node is a member and its lease in the previous bucket is
// forgotten.
func acquire(t *testing.T, n *node) (term uint64) {
	t.Helper()
	n.until("the lease", func() bool {
		e, err := n.kv.get(t.Context(), leaseKey("r"))
		if err != nil {
			return false
		}
		var ok bool
		term, ok, err = n.Acquire(t.Context(), "r")
		after, _ := n.kv.get(t.Context(), leaseKey("r"))
		return err == nil && ok && after.revision == term && e.revision <= term
	})
	return term
}
