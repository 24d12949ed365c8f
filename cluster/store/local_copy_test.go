package store

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"troupe/cluster/backup"
	"troupe/cluster/bucket"
)

// staleStream answers some reads of a key with an old message, as a server that is behind does.
type staleStream struct {
	jetstream.Stream
	old  *jetstream.RawStreamMsg
	left int
}

func (s *staleStream) GetLastMsgForSubject(ctx context.Context, subject string) (*jetstream.RawStreamMsg, error) {
	if s.left > 0 {
		s.left--
		return s.old, nil
	}
	return s.Stream.GetLastMsgForSubject(ctx, subject)
}

// TestCopyIgnoresStaleReads checks that the copy has each acknowledged change, even if the server
// that answers reads does not have it yet.
func TestCopyIgnoresStaleReads(t *testing.T) {
	s, _ := open(t)
	dir := t.TempDir()
	n := openWithCopy(t, s, dir)
	first := put(t, n, "m", 1)
	old, err := n.stream.GetLastMsgForSubject(t.Context(), bucket.Subject(Bucket, deployments+"m"))
	if err != nil {
		t.Fatal(err)
	}
	saved := func() backup.Key {
		t.Helper()
		state, _, err := backup.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		return state.Keys[deployments+"m"]
	}
	n.stream = &staleStream{n.stream, old, 3}
	second := put(t, n, "m", 2)
	if got := saved(); got.Revision != second {
		t.Errorf("the copy has revision %d after a write of revision %d over %d", got.Revision, second, first)
	}
	if old, err = s.stream.GetLastMsgForSubject(t.Context(), bucket.Subject(Bucket, deployments+"m")); err != nil {
		t.Fatal(err)
	}
	n.stream = &staleStream{s.stream, old, 3}
	if err := n.Delete(t.Context(), "m"); err != nil {
		t.Fatal(err)
	}
	if got := saved(); !got.Deleted || got.Revision <= second {
		t.Errorf("the copy has %+v after a deletion", got)
	}
}
