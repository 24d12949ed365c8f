package store

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"troupe/cluster/backup"
	"troupe/cluster/bucket"
)

// staleClient answers some reads of a key with an old message, as a server that is behind does.
type staleClient struct {
	bucket.Client
	old  *jetstream.RawStreamMsg
	left int
}

func (s *staleClient) Last(ctx context.Context, name, key string) (*jetstream.RawStreamMsg, error) {
	if s.left > 0 {
		s.left--
		return s.old, nil
	}
	return s.Client.Last(ctx, name, key)
}

// TestCopyIgnoresStaleReads checks that the copy has each acknowledged change, even if the server
// that answers reads does not have it yet.
func TestCopyIgnoresStaleReads(t *testing.T) {
	s, _ := open(t)
	dir := t.TempDir()
	n := openWithCopy(t, s, dir)
	first := put(t, n, "m", 1)
	old, err := n.client.Last(t.Context(), Bucket, deployments+"m")
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
	n.client = &staleClient{n.client, old, 3}
	second := put(t, n, "m", 2)
	if got := saved(); got.Revision != second {
		t.Errorf("the copy has revision %d after a write of revision %d over %d", got.Revision, second, first)
	}
	if old, err = s.client.Last(t.Context(), Bucket, deployments+"m"); err != nil {
		t.Fatal(err)
	}
	n.client = &staleClient{s.client, old, 3}
	if err := n.Delete(t.Context(), "m", false); err != nil {
		t.Fatal(err)
	}
	if got := saved(); !got.Deleted || got.Revision <= second {
		t.Errorf("the copy has %+v after a deletion", got)
	}
}
