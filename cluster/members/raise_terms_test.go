package members

import (
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/cluster/bucket"
)

// restartFrom restarts the server with the files of an earlier time.
func (s *natsServer) restartFrom(dir string) {
	s.t.Helper()
	s.stop()
	if err := errors.Join(os.RemoveAll(s.dir), os.CopyFS(s.dir, os.DirFS(dir))); err != nil {
		s.t.Fatal(err)
	}
	s.resume()
}

// TestTermsGrowAfterServerLosesThem checks that terms continue above those that the nodes know if
// the bucket has lost some. No term is given twice.
func TestTermsGrowAfterServerLosesThem(t *testing.T) {
	s := startServer(t)
	a := s.joinVigilant("a", "b")[0]
	acquire(t, a)
	s.stop()
	before := t.TempDir()
	if err := os.CopyFS(before, os.DirFS(s.dir)); err != nil {
		t.Fatal(err)
	}
	s.resume()
	var last uint64
	for range 300 { // more than the renewals before the nodes read the bucket again
		a.until("the server is back", func() (ok bool) {
			last, ok, _ = a.Acquire(t.Context(), "later")
			return ok && a.Release(t.Context(), "later", last) == nil
		})
	}
	s.restartFrom(before)
	a.until("a term above all earlier ones", func() bool {
		term, ok, _ := a.Acquire(t.Context(), "again")
		return ok && term > last+termGap/2
	})
}

// TestRaiseTerms checks that members and leases are kept and that terms continue above the limit.
func TestRaiseTerms(t *testing.T) {
	s := startServer(t)
	nodes := s.joinVigilant("a", "b")
	a := nodes[0]
	term := acquire(t, a)
	id, role := a.Self().GetId(), a.Roles()[0]
	client, err := bucket.NewClient(a.conn, nil)
	if err != nil {
		t.Fatal(err)
	}
	limit := term + 1<<30
	if err := RaiseTerms(t.Context(), client, limit, supervise.System, zerolog.Nop()); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		n.until("the lease has a term above the limit", func() bool {
			holder, now, ok := n.Holder(role)
			return ok && holder.GetId() == id && now > limit
		})
		if n.received(func(c Change) bool { return c.Rejoined || len(c.Left) > 0 }) {
			t.Errorf("%s: a member was fenced", n.cfg.Name)
		}
	}
	if !slices.Contains(a.Roles(), role) {
		t.Errorf("roles %v", a.Roles())
	}
}
