package cluster

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"
)

// Main runs the tests of a package that starts nodes, for its TestMain: what they start is built before, and removed afterwards.
func Main(m *testing.M) (status int) {
	defer RemoveBinaries()
	if err := Build(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// Up starts a cluster for a test, which is skipped where that is not possible here. It ends with the test, and when that has failed, its
// logs are shown.
func Up(t testing.TB, cfg Config) *Cluster {
	t.Helper()
	if (cfg.Nodes > 1 || cfg.NATS == External) && !HasFlag("--join") {
		t.Skip(ErrNoJoin)
	}
	if cfg.Isolated {
		RequireFabric(t)
	}
	cfg.Dir = t.TempDir()
	c, err := New(TestContext(t, time.Minute), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.Logs(40))
		}
		c.Close()
	})
	return c
}

// RequireFabric skips a test where network namespaces or TUN devices are not permitted.
func RequireFabric(t testing.TB) {
	t.Helper()
	if why := CheckFabric(); why != nil {
		t.Skip(why)
	}
}

// TestContext is the test's context, for at most so long: a bound on what hangs, not a claim about how fast something is.
func TestContext(t testing.TB, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), TimeScale*limit)
	t.Cleanup(cancel)
	return ctx
}
