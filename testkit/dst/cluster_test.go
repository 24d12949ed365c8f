package dst_test

import (
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"troupe/testkit/dst"
)

func runSeed(t *testing.T, o dst.Options) (r dst.Result) {
	synctest.Test(t, func(*testing.T) { r = dst.Run(o) })
	return r
}

func env(name string, otherwise uint64) uint64 {
	if v, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
		return v
	}
	return otherwise
}

// TestSeeds runs a cluster of three nodes under load and faults, for many seeds.
func TestSeeds(t *testing.T) {
	first, count := env("SEED", 1), env("SEEDS", 20)
	var virtual time.Duration
	began := time.Now()
	for seed := first; seed < first+count; seed++ {
		o := dst.Options{Seed: seed, Nodes: 3, Calls: 40, Count: int(env("FAULTS", 8)), Log: zerolog.Nop()}
		if count == 1 {
			o.Log = zerolog.New(os.Stderr)
			if os.Getenv("TRACE") != "" {
				o.Trace = func(at time.Duration, task string) { os.Stderr.WriteString(at.String() + " " + task + "\n") }
			}
		}
		r := runSeed(t, o)
		virtual += r.Virtual
		t.Log(seed, r.Trace, r.Steps, r.Virtual, r.Served, r.Void, r.Refused)
		for _, f := range r.Failures {
			t.Errorf("seed %d: %s", seed, f)
		}
		if len(r.Failures) > 0 {
			for _, f := range r.Faults {
				t.Log("   ", f)
			}
		}
	}
	t.Logf("%.1f virtual hours per minute", virtual.Hours()/time.Since(began).Minutes())
}
