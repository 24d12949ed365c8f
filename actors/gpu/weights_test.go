package gpu_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"troupe/actors/gpu"
	"troupe/cuda"
	"troupe/messages"
	"troupe/testkit"
)

// onDevice returns the weights on the device, by model, as the actor reports them.
func onDevice(t *testing.T, p *testkit.Peer, ask func()) map[string]*messages.GpuWeights {
	t.Helper()
	ask()
	all := make(map[string]*messages.GpuWeights)
	for _, w := range last[status](t, p).GetWeights() {
		all[w.GetModel()] = w
	}
	return all
}

// TestReplicasShareWeights checks that a second replica loads nothing, that each gets a handle of its
// own, and that the weights outlive both replicas and a crash of the actor.
func TestReplicasShareWeights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeModels{delay: time.Second}
		crash := &testkit.Crash{On: "*messages.DeviceFailed", Times: 1}
		p, pid := play(t, s, crash.Middleware)
		get := func() { p.Send(pid, &messages.GetGpu{}) }
		p.Send(pid, load("1", "m-0", "m"))
		p.Send(pid, load("2", "m-1", "m"))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		answers := testkit.Got[loadResult](p)
		if len(answers) != 2 || s.loads != 1 {
			t.Fatalf("%d loads, %v", s.loads, answers)
		}
		a, b := answers[0].GetLoaded(), answers[1].GetLoaded() // the first one may be the one that waited
		for _, m := range []*messages.ModelLoaded{a, b} {
			if m.GetShared() != (m.GetMetrics().GetSource() == "device") || a.GetShared() == b.GetShared() {
				t.Errorf("shared: %v", m)
			}
		}
		if a.GetHandle() == "" || a.GetHandle() == b.GetHandle() || len(a.GetHandle()) < 20 {
			t.Errorf("handles %q and %q", a.GetHandle(), b.GetHandle())
		}
		if w := onDevice(t, p, get)["m"]; w.GetLevel() != messages.Level_LEVEL_ACTIVE ||
			!slices.Equal(w.GetUsers(), []string{"m-0", "m-1"}) || w.GetBytes() != 3<<20 {
			t.Errorf("%v", w)
		}
		p.Send(pid, &messages.DeviceFailed{})
		p.Send(pid, load("3", a.GetLease(), "m"))
		if got := last[loadResult](t, p).GetLoaded(); !got.GetAdopted() || got.GetHandle() != a.GetHandle() {
			t.Errorf("after a crash: %v", got)
		}
		for _, lease := range []string{"m-0", "m-1"} {
			p.Send(pid, &messages.UnloadModel{Lease: lease})
		}
		synctest.Wait()
		if w := onDevice(t, p, get)["m"]; w.GetLevel() != messages.Level_LEVEL_STANDBY ||
			len(w.GetUsers()) != 0 {
			t.Errorf("%v", w)
		}
		p.Send(pid, load("4", "m-2", "m"))
		if got := last[loadResult](t, p).GetLoaded(); !got.GetShared() || s.loads != 1 {
			t.Errorf("%d loads, %v", s.loads, got)
		}
	})
}

// TestUnusedWeightsAreEvicted checks that a load that needs memory evicts the weights that were unused
// for longest, not those in use, and that a refusal says what could go.
func TestUnusedWeightsAreEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeModels{}
		var events []string
		p, pid := playWith(t, s, func(c *gpu.Config) {
			c.Info = cuda.Info{MemoryBytes: 16 << 20} // weights of three models fit, with their KV memory
			c.Publish = func(kind, _, detail string) { events = append(events, kind+" "+detail) }
		})
		get := func() { p.Send(pid, &messages.GetGpu{}) }
		small := func(id, lease, path string) *messages.LoadModel {
			ask := load(id, lease, path)
			ask.KvBlocks = 1
			return ask
		}
		for _, model := range []string{"a", "b"} {
			p.Send(pid, small(model, model+"-0", model))
			synctest.Wait()
			p.Send(pid, &messages.UnloadModel{Lease: model + "-0"})
			time.Sleep(time.Second)
		}
		p.Send(pid, small("c", "c-0", "c"))
		synctest.Wait()
		p.Send(pid, small("d", "d-0", "d"))
		if got := last[loadResult](t, p).GetLoaded(); got.GetLease() != "d-0" {
			t.Fatalf("%v", last[loadResult](t, p))
		}
		w := onDevice(t, p, get)
		if w["a"] != nil || w["b"] == nil || w["c"] == nil || w["d"] == nil {
			t.Errorf("on the device: %v", w)
		}
		if !slices.Contains(events, "weights.evicted a: d-0 needs the memory") {
			t.Errorf("events: %v", events)
		}
		p.Send(pid, &messages.UnloadModel{Lease: "c-0"})
		synctest.Wait()
		big := small("f", "f-0", "f")
		big.KvBlocks = 512
		p.Send(pid, big)
		refused := last[loadResult](t, p).GetRefused()
		if m := refused.GetMemory(); refused.GetReason() != messages.Reason_REASON_NO_MEMORY ||
			m.GetEvictable() != 8<<20 || m.GetTotal() != 16<<20 || m.GetUsed() == 0 || m.GetBytes() == 0 {
			t.Errorf("%v", refused)
		}
		if w := onDevice(t, p, get); w["b"] == nil || w["c"] == nil {
			t.Error("a load that was refused evicted weights")
		}
	})
}

// TestEvictWeights checks that a command frees unused weights, and refuses those in use and those that
// are not there.
func TestEvictWeights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeModels{}
		p, pid := play(t, s)
		evict := func(model string) *messages.EvictWeightsResult {
			p.Send(pid, &messages.EvictWeights{RequestId: "e", Model: model})
			return last[*messages.EvictWeightsResult](t, p)
		}
		p.Send(pid, load("1", "m-0", "m"))
		synctest.Wait()
		if r := evict("m").GetRefused(); r.GetReason() != messages.Reason_REASON_CONFLICT {
			t.Errorf("in use: %v", r)
		}
		r := evict("n").GetRefused()
		if r.GetReason() != messages.Reason_REASON_NOT_FOUND || r.GetNotLoaded().GetModel() != "n" ||
			r.GetNotLoaded().GetDevice() != "node/gpu-0" {
			t.Errorf("not there: %v", r)
		}
		p.Send(pid, &messages.UnloadModel{Lease: "m-0"})
		synctest.Wait()
		if r := evict("m"); r.GetEvicted() == nil {
			t.Errorf("unused: %v", r)
		}
		p.Send(pid, &messages.GetGpu{})
		if got := last[status](t, p); got.GetFreeBytes() != got.GetMemoryBytes() || len(s.Copies()) != 0 {
			t.Errorf("%v", got)
		}
	})
}

// TestHandleIsForItsOwner checks that no other actor, and no earlier incarnation, gets the handle of a
// lease by its name, also after a crash of the gpu actor.
func TestHandleIsForItsOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		crash := &testkit.Crash{On: "*messages.KVShrunk", Times: 1}
		p, pid := play(t, &fakeModels{}, crash.Middleware)
		stranger := testkit.NewPeer(t, p.System(), "stranger", nil)
		ask := load("1", "m-0", "m")
		ask.Started = 5
		p.Send(pid, ask)
		handle := last[loadResult](t, p).GetLoaded().GetHandle()
		if handle == "" {
			t.Fatal("no handle")
		}
		for range 2 {
			guess := load("2", "m-0", "m")
			guess.Started = 9
			stranger.Send(pid, guess)
			if r := last[loadResult](t, stranger); r.GetRefused().GetReason() != messages.Reason_REASON_CONFLICT {
				t.Errorf("a stranger got %v", r)
			}
			p.Send(pid, &messages.KVShrunk{Lease: "none"})
			synctest.Wait()
		}
		next := load("3", "m-0", "m")
		next.Started = 6
		p.Send(pid, next)
		if r := last[loadResult](t, p); r.GetLoaded().GetHandle() != handle {
			t.Errorf("the next incarnation got %v", r)
		}
		p.Send(pid, ask)
		if r := last[loadResult](t, p); r.GetRefused().GetReason() != messages.Reason_REASON_CONFLICT {
			t.Errorf("an earlier incarnation got %v", r)
		}
	})
}
