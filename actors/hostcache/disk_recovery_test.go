package hostcache_test

import (
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	core "troupe/core/hostcache"
	"troupe/messages"
	"troupe/testkit"
)

// TestParkedToLostDisk parks a model when the folder of its image is gone. It is cold, its room on the disk is
// given back, and the image is written after the next load.
func TestParkedToLostDisk(t *testing.T) { synctest.Test(t, parkedToLostDisk) }

func parkedToLostDisk(t *testing.T) {
	f := newDiskFixture(t, 1<<10, t.TempDir(), 1<<20, nil, nil)
	dir := tinyModel(t, 1)
	f.load(dir)
	if err := os.Remove(f.dir); err != nil {
		t.Fatal(err)
	}
	f.park()
	if s := f.status().GetDisk(); s.GetUsedBytes() != 0 || !f.events.have("weights.cold", "no such file") {
		t.Fatalf("%v; %v", s, f.events.all)
	}
	if err := os.Mkdir(f.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	f.load(dir)
	f.onDisk(1)
	f.park()
}

// crashCache crashes the host cache once. Its group does not answer.
func (f *fixture) crashCache() {
	f.peer.Send(f.cache, &messages.UseImage{RequestId: "crash"})
}

// TestDiskTicketKeepsItsRoom checks that a restarted host cache counts the room of an image that is being
// written with a ticket, until the ticket ends.
func TestDiskTicketKeepsItsRoom(t *testing.T) { synctest.Test(t, diskTicketKeepsItsRoom) }

func diskTicketKeepsItsRoom(t *testing.T) {
	f := newDiskFixture(t, 0, t.TempDir(), 1<<20, nil, &testkit.Crash{On: "*messages.UseImage", Times: 1})
	f.images.IssueDisk("ticket", core.Key{Digest: "a", Layout: "l"}, 1000, time.Now().Add(time.Hour))
	f.crashCache()
	f.usesDisk(1000)
	f.images.End("ticket", "its load did not begin")
	f.usesDisk(0)
}

// usesDisk waits until as much of the disk is used.
func (f *fixture) usesDisk(bytes uint64) {
	f.t.Helper()
	testkit.Until(f.t, fmt.Sprintf("%d bytes in use on disk", bytes), func() bool {
		f.peer.Send(f.cache, &messages.GetHostCache{})
		time.Sleep(time.Second)
		all := testkit.Got[*messages.HostCacheStatus](f.peer)
		return len(all) > 0 && all[len(all)-1].GetDisk().GetUsedBytes() == bytes
	})
}

// TestDiskImagesStayUntilSynced checks that a restarted host cache drops no image on disk before it knows the
// stored deployments, which may be parked there.
func TestDiskImagesStayUntilSynced(t *testing.T) { synctest.Test(t, diskImagesStayUntilSynced) }

func diskImagesStayUntilSynced(t *testing.T) {
	images := t.TempDir()
	first := newDiskFixture(t, 0, images, 1<<20, nil, nil)
	first.load(tinyModel(t, 1))
	revision, bytes := first.revision, int64(first.onDisk(1).GetUsedBytes())
	first.park()
	f := newDiskFixture(t, 0, images, bytes, nil, &testkit.Crash{On: "*messages.UseImage", Times: 1})
	f.crashCache()
	f.load(tinyModel(t, 2))
	time.Sleep(10 * time.Second) // of the bubble: the image is tried
	if i := f.onDisk(1).GetImages()[0]; i.GetRevisionDigest() != revision {
		t.Errorf("%v has replaced %s", i, revision)
	}
	f.peer.Send(f.cache, &messages.ListDeploymentsResult{})
	time.Sleep(10 * time.Second)
	if i := f.onDisk(1).GetImages()[0]; i.GetRevisionDigest() != f.revision {
		t.Errorf("%v, want %s", i, f.revision)
	}
	f.park()
}
