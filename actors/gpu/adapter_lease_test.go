package gpu_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/core/hbm"
	"troupe/cuda"
	"troupe/messages"
	"troupe/testkit"
)

// adapterBytes returns the bytes that a device reports as leased for adapters.
func adapterBytes(p *testkit.Peer, pid *actor.PID) uint64 {
	p.Send(pid, &messages.GetGpu{})
	synctest.Wait()
	all := testkit.Got[*messages.GpuStatus](p)
	for _, l := range all[len(all)-1].GetLeases() {
		if l.GetKind() == "adapters" {
			return l.GetBytes()
		}
	}
	return 0
}

// TestLeaseAdapters checks that free pages are leased once, that the lease survives a crash, and
// that it ends with the lease of the model.
func TestLeaseAdapters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		crash := &testkit.Crash{On: "*messages.QuarantineGpu", Times: 1}
		peer, pid := play(t, &fakeModels{}, crash.Middleware)
		ask := func(lease string, pages uint32) *messages.LeaseAdaptersResult {
			peer.Send(pid, &messages.LeaseAdapters{RequestId: "a", Lease: lease, Pages: pages})
			synctest.Wait()
			return last[*messages.LeaseAdaptersResult](t, peer)
		}
		if r := ask("m-0", 1).GetRefused(); r.GetReason() != messages.Reason_REASON_NOT_FOUND {
			t.Errorf("without a model: %v", r)
		}
		peer.Send(pid, load("l", "m-0", "m"))
		synctest.Wait()
		if r := ask("m-0", 100).GetRefused(); r.GetReason() != messages.Reason_REASON_NO_MEMORY ||
			adapterBytes(peer, pid) != 0 {
			t.Errorf("more than is free: %v", r)
		}
		if got := ask("m-0", 2).GetLeased(); got.GetPages() != 2 || adapterBytes(peer, pid) != 2*hbm.PageBytes {
			t.Errorf("%v, %d bytes", got, adapterBytes(peer, pid))
		}
		if got := ask("m-0", 1).GetLeased(); got.GetPages() != 2 {
			t.Errorf("second request: %v", got)
		}
		peer.Send(pid, &messages.QuarantineGpu{})
		synctest.Wait()
		if crash.Crashed() != 1 || adapterBytes(peer, pid) != 2*hbm.PageBytes {
			t.Errorf("%d bytes after a crash", adapterBytes(peer, pid))
		}
		peer.Send(pid, &messages.UnloadModel{Lease: "m-0"})
		synctest.Wait()
		if n := adapterBytes(peer, pid); n != 0 {
			t.Errorf("%d bytes after the unload", n)
		}
	})
}

// TestFailedAdapterLeaseReleasesPages checks that pages are released if their allocation fails.
func TestFailedAdapterLeaseReleasesPages(t *testing.T) {
	for want, err := range map[messages.Reason]error{
		messages.Reason_REASON_NO_MEMORY:   cuda.ErrOutOfMemory,
		messages.Reason_REASON_UNSUPPORTED: errors.ErrUnsupported,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &fakeModels{failResize: err}
			peer, pid := play(t, s)
			peer.Send(pid, load("l", "m-0", "m"))
			synctest.Wait()
			peer.Send(pid, &messages.LeaseAdapters{RequestId: "a", Lease: "m-0", Pages: 1})
			synctest.Wait()
			if r := last[*messages.LeaseAdaptersResult](t, peer).GetRefused(); r.GetReason() != want ||
				adapterBytes(peer, pid) != 0 {
				t.Errorf("%v: %v, %d bytes", err, r, adapterBytes(peer, pid))
			}
		})
	}
}

// TestKVYieldsToAdapters requests more pages than are free. Either KV memory yields, or all
// requests are refused, including those that arrived in the meantime.
func TestKVYieldsToAdapters(t *testing.T) {
	for name, want := range map[string]messages.Reason{"shrinks": 0, "refuses": messages.Reason_REASON_NO_MEMORY,
		"unloaded": messages.Reason_REASON_NOT_FOUND} {
		synctest.Test(t, func(t *testing.T) {
			p, send := playFull(t, &fakeModels{})
			send(&messages.LeaseAdapters{RequestId: "1", Lease: "m-0", Pages: 4}) // two are free
			send(&messages.LeaseAdapters{RequestId: "2", Lease: "m-0", Pages: 4})
			ask := last[*messages.ShrinkKV](t, p)
			if n := len(testkit.Got[*messages.LeaseAdaptersResult](p)); ask.GetBlocks() != 256 || n != 0 {
				t.Fatalf("%s: %v, with %d answers", name, ask, n)
			}
			shrunk := &messages.KVShrunk{Lease: "m-0", Attempt: ask.GetAttempt()}
			switch name {
			case "refuses":
				shrunk.Refused = &messages.Refused{}
			case "unloaded":
				send(&messages.UnloadModel{Lease: "m-0"})
			}
			send(shrunk)
			time.Sleep(6 * time.Second)
			answers := testkit.Got[*messages.LeaseAdaptersResult](p)
			for _, r := range answers {
				if r.GetRefused().GetReason() != want || want == 0 && r.GetLeased().GetPages() != 4 {
					t.Errorf("%s: %v", name, r)
				}
			}
			if len(answers) != 2 {
				t.Errorf("%s: %d answers", name, len(answers))
			}
		})
	}
}
