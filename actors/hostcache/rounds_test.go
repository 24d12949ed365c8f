package hostcache_test

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"troupe/messages"
	"troupe/testkit"
)

const disk, hostCache = "disk", "host cache"

// TestThousandRounds parks and loads a model a thousand times. Ledger, host memory and outputs stay as
// they were, and the folder is read only once.
func TestThousandRounds(t *testing.T) { synctest.Test(t, thousandRounds) }

func thousandRounds(t *testing.T) {
	f := newFixture(t, 1<<20, nil, nil)
	dir := tinyModel(t, 1)
	loaded := f.load(dir)
	want, source := f.output(loaded), loaded.GetMetrics().GetSource()
	if source != disk {
		t.Fatalf("the first load is from %s", source)
	}
	f.park()
	before := f.status()
	if before.GetUsedBytes() == 0 || len(before.GetImages()) != 1 {
		t.Fatalf("%v", before)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for round := range 1000 {
		loaded := f.load(dir)
		if got := f.output(loaded); got != want || loaded.GetMetrics().GetSource() != hostCache {
			t.Fatalf("round %d: %s from %s, want %s", round, got, loaded.GetMetrics().GetSource(), want)
		}
		f.park()
	}
	after := f.status()
	if after.GetUsedBytes() != before.GetUsedBytes() || f.memory.count() != 1 || len(f.store.Copies()) != 0 {
		t.Errorf("after: %v, %d images have memory", after, f.memory.count())
	}
	if g := f.gpuStatus(); g.GetFreeBytes() != g.GetMemoryBytes() || len(g.GetLeases()) != 0 {
		t.Errorf("the ledger is not empty: %v", g)
	}
}

// gpuStatus returns the status of the device.
func (f *fixture) gpuStatus() *messages.GpuStatus {
	f.t.Helper()
	var found *messages.GpuStatus
	testkit.Until(f.t, "the status of the GPU", func() bool {
		f.peer.Send(f.gpu, &messages.GetGpu{})
		if all := testkit.Got[*messages.GpuStatus](f.peer); len(all) > 0 {
			found = all[len(all)-1]
		}
		return found != nil && found.GetFreeBytes() == found.GetMemoryBytes()
	})
	return found
}

// TestCrashes crashes the host cache and the gpu actor on each message of the protocol, at its first and
// second occurrence. Each load gives the right output, and nothing is left.
func TestCrashes(t *testing.T) {
	for _, on := range []string{
		"*messages.UseImage", "*messages.UseImageResult", "*hostcache.ended", "*gpu.weightsLoaded", "*gpu.weightsFreed",
		"*messages.LoadModel", "*messages.UnloadModel",
	} {
		for after := range int64(2) {
			inBubble := func(t *testing.T) {
				crash := &testkit.Crash{On: on, After: after, Times: 1}
				f := newFixture(t, 1<<20, nil, crash)
				dir, want := tinyModel(t, 1), ""
				for round := range 3 {
					loaded := f.load(dir)
					got := f.output(loaded)
					if round == 0 {
						want = got
					}
					if got != want {
						t.Errorf("round %d: %s, want %s", round, got, want)
					}
					f.park()
				}
				s := f.status()
				if len(s.GetImages()) > 1 || f.memory.count() != len(s.GetImages()) ||
					len(s.GetImages()) == 1 && s.GetImages()[0].GetState() != "ready" {
					t.Errorf("%v, %d images have memory", s, f.memory.count())
				}
				f.gpuStatus()
				if crash.Crashed() == 0 {
					t.Error("nothing crashed")
				}
			}
			t.Run(fmt.Sprintf("%s after %d", on, after), func(t *testing.T) { synctest.Test(t, inBubble) })
		}
	}
}

// TestCrashDuringFill crashes the host cache while a load fills an image. The next incarnation counts the
// memory, and keeps the image.
func TestCrashDuringFill(t *testing.T) { synctest.Test(t, crashDuringFill) }

func crashDuringFill(t *testing.T) {
	begun, gate := make(chan struct{}), make(chan struct{})
	var held atomic.Bool
	crash := &testkit.Crash{On: "*messages.RemoveDeployment", Times: 1}
	f := newFixture(t, 1<<20, func(op string) error {
		if op == "copy in" && held.CompareAndSwap(false, true) {
			close(begun)
			<-gate
		}
		return nil
	}, crash)
	dir := tinyModel(t, 1)
	f.peer.Send(f.gpu, &messages.LoadModel{
		RequestId: "held", Lease: "m-0", Model: "m", Path: dir, BlockTokens: 16, KvBlocks: 8, MaxSequences: 2,
		StepTokens: 8,
	})
	<-begun
	f.peer.Send(f.cache, &messages.RemoveDeployment{})
	var filling *messages.HostCacheStatus
	testkit.Until(t, "the next incarnation", func() bool {
		f.peer.Send(f.cache, &messages.GetHostCache{})
		if all := testkit.Got[*messages.HostCacheStatus](f.peer); len(all) > 0 {
			filling = all[len(all)-1]
		}
		return crash.Crashed() == 1 && filling != nil
	})
	if filling.GetInUseBytes() == 0 || len(filling.GetImages()) != 1 || filling.GetImages()[0].GetState() != "filling" {
		t.Errorf("during the load: %v", filling)
	}
	close(gate)
	f.load(dir)
	f.park()
	if s := f.status(); len(s.GetImages()) != 1 || s.GetImages()[0].GetState() != "ready" || f.memory.count() != 1 {
		t.Errorf("after the load: %v", s)
	}
	if source := f.load(dir).GetMetrics().GetSource(); source != hostCache {
		t.Errorf("loaded from %s", source)
	}
}

// TestFailedLoadGivesBack fails each copy of a load in turn, from the folder and from the image. All bytes
// are given back on the device and in host memory, and a later load succeeds.
func TestFailedLoadGivesBack(t *testing.T) { synctest.Test(t, failedLoadGivesBack) }

func failedLoadGivesBack(t *testing.T) {
	var left atomic.Int64
	f := newFixture(t, 1<<20, func(op string) error {
		if op == "copy in" && left.Add(-1) == 0 {
			return errors.New("injected")
		}
		return nil
	}, nil)
	dir := tinyModel(t, 1)
	for copies := int64(1); copies < 12; copies += 5 {
		left.Store(copies)
		f.peer.Send(f.gpu, &messages.LoadModel{
			RequestId: fmt.Sprint("fails ", copies), Lease: "m-0", Model: "m", Path: dir, BlockTokens: 16, KvBlocks: 8,
			MaxSequences: 2, StepTokens: 8,
		})
		testkit.Until(t, "the refusal", func() bool {
			return f.answer(fmt.Sprint("fails ", copies)).GetRefused() != nil
		})
		f.gpuStatus()
		if s := f.status(); len(s.GetImages()) != 0 || s.GetUsedBytes() != 0 || f.memory.count() != 0 {
			t.Errorf("copy %d: %v, %d images have memory", copies, s, f.memory.count())
		}
	}
	left.Store(0)
	want := f.output(f.load(dir))
	f.park()
	left.Store(1)
	loaded := f.load(dir) // the image fails, and the folder takes its place
	if got := f.output(loaded); got != want || loaded.GetMetrics().GetSource() != disk {
		t.Errorf("%s from %s, want %s", got, loaded.GetMetrics().GetSource(), want)
	}
}

// TestDamagedImageIsReplaced checks that a damaged image is dropped and not used, and that the folder is
// read instead.
func TestDamagedImageIsReplaced(t *testing.T) { synctest.Test(t, damagedImageIsReplaced) }

func damagedImageIsReplaced(t *testing.T) {
	f := newFixture(t, 1<<20, nil, nil)
	dir := tinyModel(t, 1)
	want := f.output(f.load(dir))
	f.park()
	f.memory.damage()
	loaded := f.load(dir)
	if got := f.output(loaded); got != want || loaded.GetMetrics().GetSource() != disk {
		t.Errorf("%s from %s, want %s", got, loaded.GetMetrics().GetSource(), want)
	}
	f.park()
	if s := f.status(); len(s.GetImages()) != 1 || f.memory.count() != 1 {
		t.Errorf("%v, %d images have memory", s, f.memory.count())
	}
	if got, source := f.output(f.load(dir)), hostCache; got != want {
		t.Errorf("after the repair: %s from %s", got, source)
	}
}
