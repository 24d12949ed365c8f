package hierarchy

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/core/backend"
	"troupe/core/kv"
	"troupe/cuda/host"
	"troupe/engine"
	"troupe/messages"
	"troupe/node/gpus"
	"troupe/node/query"
	"troupe/node/tiers"
	"troupe/observe/tree"
)

func base(t *testing.T) *Base {
	t.Helper()
	log := zerolog.Nop()
	dispatcher := supervise.NewDispatcher()
	b := &Base{
		Node: "a", System: NewSystem(supervise.System, prometheus.NewRegistry(), log),
		Dispatcher: dispatcher, Registry: tree.New(func(tree.Event) {}), Log: log,
	}
	t.Cleanup(dispatcher.Close)
	t.Cleanup(b.System.Shutdown)
	return b
}

// TestDevicesAndTiers checks that the groups of devices and tiers run without the rest of a node,
// and that all of their actors are registered.
func TestDevicesAndTiers(t *testing.T) {
	b := base(t)
	g := gpus.New(func(backend.Kind) engine.Loader { return nil })
	if err := g.OpenSoftware([]host.Config{{MemoryBytes: 64 << 20}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	open, err := tiers.Open(tiers.Config{
		DRAMBytes: 64 << 20, NVMeBytes: 64 << 20, NVMePath: filepath.Join(t.TempDir(), "kv"), LocalOnly: true,
		Watermark: kv.DefaultWatermark, Policy: kv.DefaultPolicy,
	}, g.AllocHost, b.Log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(open.Close)
	devices := Devices{
		GPUs: g, KVReserve: func(string) float64 { return 0.1 }, Publish: func(_, _, _ string) {},
	}
	below := Tiers{Open: open}
	root := b.group("node", []supervise.Child{
		{Name: "devices", Props: devices.Props(b)}, {Name: "tiers", Props: below.Props(b)},
	})
	pid, err := b.System.Root.SpawnNamed(root, query.Node)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"gpu", "group", "group", "hbm", "node", "tier", "tier"}
	var kinds []string
	for end := time.Now().Add(10 * time.Second); !slices.Equal(kinds, want); <-time.After(time.Millisecond) {
		if kinds = kindsIn(b.Registry.Snapshot()); time.Now().After(end) {
			t.Fatalf("%q, want %q", kinds, want)
		}
	}
	status, err := query.Ask[*messages.GpuStatus](t.Context(), b.System, query.GPU("gpu-0"), &messages.GetGpu{})
	if err != nil || status.GetName() != "gpu-0" {
		t.Error(status, err)
	}
	for _, name := range open.Names() {
		s, err := query.Ask[*messages.SlotsStatus](t.Context(), b.System, query.Tier(name),
			&messages.GetSlots{RequestId: "1"})
		if err != nil || s.GetName() != name {
			t.Error(s, err)
		}
	}
	if lower := below.forReplicas(b); len(lower.Lower) != 2 || lower.Remote != nil || below.Empty() {
		t.Errorf("%v", lower)
	}
	if err := b.System.Root.StopFuture(pid).Wait(); err != nil {
		t.Error(err)
	}
}

// kindsIn returns the kinds of all actors in a tree, sorted.
func kindsIn(all []*messages.ActorNode) (kinds []string) {
	for _, a := range all {
		kinds = append(append(kinds, a.GetKind()), kindsIn(a.GetChildren())...)
	}
	slices.Sort(kinds)
	return kinds
}

// fixed is a runtime whose time stands still.
type fixed struct{ supervise.Runtime }

func (fixed) Now() time.Time { return time.Unix(5, 0) }

// TestNewSystem checks that the actors of a system have its runtime.
func TestNewSystem(t *testing.T) {
	sys := NewSystem(fixed{supervise.System}, prometheus.NewRegistry(), zerolog.Nop())
	defer sys.Shutdown()
	if now := supervise.RuntimeOf(sys).Now(); now.Unix() != 5 {
		t.Error(now)
	}
}
