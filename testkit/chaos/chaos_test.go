package chaos

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"troupe/testkit/cluster"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

var nodes = []string{"n1", "n2", "n3"}

// TestSchedule: the seed determines all steps, every kind occurs, and each step is valid.
func TestSchedule(t *testing.T) {
	kinds := []cluster.Kind{
		cluster.Kill, cluster.Cut, cluster.CutOneWay, cluster.CrashReplica, cluster.KillNATS, cluster.Restart,
	}
	first := newSchedule(7, nodes, 3, kinds)
	again, other := newSchedule(7, nodes, 3, kinds), newSchedule(8, nodes, 3, kinds)
	differs := false
	for range 20 {
		var round []cluster.Kind
		for range kinds {
			s := first.next()
			if s != again.next() {
				t.Fatal("the same seed gave different steps")
			}
			differs = differs || s != other.next()
			round = append(round, s.Kind)
			check(t, s)
		}
		slices.Sort(round)
		if len(slices.Compact(round)) != len(kinds) {
			t.Errorf("round of %v", round)
		}
	}
	if !differs {
		t.Error("different seeds gave the same steps")
	}
}

func check(t *testing.T, s Step) {
	t.Helper()
	switch s.Kind {
	case cluster.Cut, cluster.CutOneWay:
		if s.On == s.Other || !slices.Contains(nodes, s.On) || !slices.Contains(nodes, s.Other) {
			t.Errorf("%s: from %q to %q", s, s.On, s.Other)
		}
	case cluster.CrashReplica:
		if s.Replica < 0 || s.Replica > 2 {
			t.Errorf("%s: of replica %d", s, s.Replica)
		}
	case cluster.Kill, cluster.Restart:
		if !slices.Contains(nodes, s.On) {
			t.Errorf("%s: on %q", s, s.On)
		}
	}
	if s.Hold != 0 && (s.Hold < shortest || s.Hold > longest) {
		t.Errorf("%s", s)
	}
}

// TestShort injects each fault that testkit/cluster has no test of, as make chaos does, on one node if
// no more are possible.
func TestShort(t *testing.T) {
	kinds := []cluster.Kind{cluster.CrashReplica, cluster.Restart, cluster.Migrate, cluster.Drain}
	cfg := Config{
		Dir: t.TempDir(), Seed: 2, Length: cluster.TimeScale * 10 * time.Minute, Steps: len(kinds), Nodes: 3,
		Kinds: kinds, Clients: 6, Tokens: 80, Rest: time.Second, Print: func(line string) { t.Log(line) },
	}
	if !cluster.HasFlag("--join") {
		cfg.Nodes, cfg.Kinds = 1, kinds[:1]
	}
	if err := Run(t.Context(), cfg); err != nil {
		t.Error(err)
	}
}

// TestWrongAnswer: a stream with wrong content fails the run.
func TestWrongAnswer(t *testing.T) {
	r, err := start(t.Context(), Config{Dir: t.TempDir(), Seed: 2, Nodes: 1, Clients: 4, Tokens: 50, Steps: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	r.load.Answers[2].Text += "!"
	if err := r.round(
		t.Context(), time.Now().Add(time.Minute),
	); err == nil || !strings.Contains(fmt.Sprint(err), "wrong answer") {
		t.Errorf("got %v", err)
	}
}

// TestLeftBehind: the error names what is left, not the time spent waiting.
func TestLeftBehind(t *testing.T) {
	r, err := start(t.Context(), Config{Dir: t.TempDir(), Seed: 2, Nodes: 1, Clients: 4, Tokens: 50})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for limit := time.Second; ; limit *= 2 { // long enough for one look at the node
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		err := r.clean(ctx, cluster.Baseline{"n1": -100})
		cancel()
		if err != nil && strings.Contains(err.Error(), "n1 has") {
			return
		}
		if limit > time.Minute {
			t.Fatalf("got %v", err)
		}
	}
}
