package cluster

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"
)

// Main runs the tests of a package that starts nodes. It builds the binaries first and removes them
// afterwards. Call it from TestMain.
func Main(m *testing.M) (status int) {
	defer RemoveBinaries()
	if err := Build(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// Up starts a cluster that ends with the test. It skips the test if the cluster is not supported
// here. If the test fails, Up prints the cluster's logs.
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

// RequireFabric skips a test if network namespaces or TUN devices are not permitted.
func RequireFabric(t testing.TB) {
	t.Helper()
	if why := CheckFabric(); why != nil {
		t.Skip(why)
	}
}

// TestContext returns the test's context with a time limit. The limit only bounds hangs; it is not
// a requirement on speed.
func TestContext(t testing.TB, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), TimeScale*limit)
	t.Cleanup(cancel)
	return ctx
}
