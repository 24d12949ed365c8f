package hostcache_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"troupe/messages"
	"troupe/testkit"
)

const diskImage = "disk image"

// onDisk waits until the images on disk are as many as expected, and complete.
func (f *fixture) onDisk(images int) (s *messages.DiskImagesStatus) {
	f.t.Helper()
	testkit.Until(f.t, fmt.Sprintf("%d images on disk", images), func() bool {
		s = f.status().GetDisk()
		for _, i := range s.GetImages() {
			if i.GetState() != "ready" {
				return false
			}
		}
		return len(s.GetImages()) == images && len(f.files(images)) == images
	})
	return s
}

// files returns the paths in the image folder, or nil if there are more than most or the folder cannot be read.
func (f *fixture) files(most int) []string {
	all, err := os.ReadDir(f.dir)
	if err != nil || len(all) > most {
		return nil
	}
	var paths []string
	for _, e := range all {
		paths = append(paths, filepath.Join(f.dir, e.Name()))
	}
	return paths
}

// TestDiskImageOutlivesNode checks that an image is written after a cold load, and that another node
// process loads it without the folder, with the same output, and into its host memory. With a host cache
// that is too small, it is loaded past it.
func TestDiskImageOutlivesNode(t *testing.T) { synctest.Test(t, diskImageOutlivesNode) }

func diskImageOutlivesNode(t *testing.T) {
	images, dir := t.TempDir(), tinyModel(t, 1)
	f := newDiskFixture(t, 1<<20, images, 1<<20, nil, nil)
	loaded := f.load(dir)
	want := f.output(loaded)
	f.onDisk(1)
	f.park()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for budget, kept := range map[int64]int{1 << 20: 1, 1 << 10: 0} {
		next := newDiskFixture(t, budget, images, 1<<20, nil, nil)
		next.revision = f.revision
		loaded := next.load(dir)
		if got := next.output(loaded); got != want || loaded.GetMetrics().GetSource() != diskImage {
			t.Errorf("%s from %s, want %s", got, loaded.GetMetrics().GetSource(), want)
		}
		if s := next.status(); len(s.GetImages()) != kept {
			t.Errorf("host memory of %d bytes: %v", budget, s)
		}
		next.park()
	}
}

// TestTornDiskImage checks that files that are torn, or have a damaged header, are removed at the start.
func TestTornDiskImage(t *testing.T) { synctest.Test(t, tornDiskImage) }

func tornDiskImage(t *testing.T) {
	dir := tinyModel(t, 1)
	for name, spoil := range map[string]func(path string) error{
		"cut":        func(path string) error { return os.Truncate(path, 5000) },
		"header":     func(path string) error { return flip(path, 100) },
		"unfinished": func(path string) error { return os.Rename(path, path+".partial") },
	} {
		images := t.TempDir()
		f := newDiskFixture(t, 1<<20, images, 1<<20, nil, nil)
		want := f.output(f.load(dir))
		f.onDisk(1)
		if err := spoil(f.files(1)[0]); err != nil {
			t.Fatal(err)
		}
		next := newDiskFixture(t, 1<<20, images, 1<<20, nil, nil)
		if len(next.files(9)) != 0 {
			t.Errorf("%s: %v is still there", name, next.files(9))
		}
		next.revision = f.revision
		loaded := next.load(dir)
		if got := next.output(loaded); got != want || loaded.GetMetrics().GetSource() != disk {
			t.Errorf("%s: %s from %s, want %s", name, got, loaded.GetMetrics().GetSource(), want)
		}
		next.onDisk(1)
		f.park()
		next.park()
	}
}

func flip(path string, at int64) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	var b [1]byte
	_, err = f.ReadAt(b[:], at)
	b[0] ^= 4
	_, failed := f.WriteAt(b[:], at)
	return errors.Join(err, failed, f.Close())
}

// TestDamagedDiskImage damages the weights of an image on disk. The load uses the folder, and the image is
// written again.
func TestDamagedDiskImage(t *testing.T) { synctest.Test(t, damagedDiskImage) }

func damagedDiskImage(t *testing.T) {
	images, dir := t.TempDir(), tinyModel(t, 1)
	f := newDiskFixture(t, 1<<20, images, 1<<20, nil, nil)
	want := f.output(f.load(dir))
	s := f.onDisk(1)
	if err := flip(f.files(1)[0], int64(s.GetUsedBytes())-5000); err != nil {
		t.Fatal(err)
	}
	next := newDiskFixture(t, 1<<20, images, 1<<20, nil, nil)
	next.revision = f.revision
	for round, source := range []string{disk, hostCache} {
		loaded := next.load(dir)
		if got := next.output(loaded); got != want || loaded.GetMetrics().GetSource() != source {
			t.Errorf("round %d: %s from %s, want %s", round, got, loaded.GetMetrics().GetSource(), want)
		}
		next.park()
	}
	next.onDisk(1)
	if !next.events.have("weights.damaged: on disk") {
		t.Errorf("no event of the damage: %v", next.events.all)
	}
	last := newDiskFixture(t, 1<<10, images, 1<<20, nil, nil)
	last.revision = f.revision
	if source := last.load(dir).GetMetrics().GetSource(); source != diskImage {
		t.Errorf("after the repair, from %s", source)
	}
	f.park()
	last.park()
}

// usedAt returns when the image of a revision was used last, as its file has it.
func (f *fixture) usedAt(revision string) time.Time {
	found, err := filepath.Glob(filepath.Join(f.dir, revision+"-*.image"))
	if err != nil || len(found) != 1 {
		f.t.Fatal(found, err)
	}
	info, err := os.Stat(found[0])
	if err != nil {
		f.t.Fatal(err)
	}
	return info.ModTime()
}

// TestDiskBudget checks that the image used least recently makes room for the next one, and that uses
// count over a restart.
func TestDiskBudget(t *testing.T) { synctest.Test(t, diskBudget) }

func diskBudget(t *testing.T) {
	images := t.TempDir()
	first := newDiskFixture(t, 1<<20, images, 1<<30, nil, nil)
	var revisions []string
	for seed := range uint64(2) {
		first.revision = ""
		first.load(tinyModel(t, seed+1))
		revisions = append(revisions, first.revision)
		first.park()
		first.onDisk(int(seed) + 1)
	}
	bytes := int64(first.onDisk(2).GetUsedBytes())
	used := newDiskFixture(t, 1<<10, images, bytes, nil, nil)
	used.revision = revisions[0]
	if source := used.load("gone").GetMetrics().GetSource(); source != diskImage {
		t.Fatalf("from %s", source)
	}
	used.park()
	testkit.Until(t, "the use to be noted", func() bool {
		return used.usedAt(revisions[0]).After(used.usedAt(revisions[1]))
	})
	f := newDiskFixture(t, 1<<20, images, bytes, nil, nil)
	f.load(tinyModel(t, 3))
	testkit.Until(t, "the third image", func() bool {
		s, held := f.status().GetDisk(), make(map[string]bool)
		for _, i := range s.GetImages() {
			held[i.GetRevisionDigest()] = i.GetState() == "ready"
		}
		return len(held) == 2 && held[f.revision] && int64(s.GetUsedBytes()) <= bytes
	})
	f.usedAt(revisions[0])
	f.park()
}

// TestDiskWriteCrashes crashes the host cache while an image is written, and on the report. The image is
// written nevertheless, once.
func TestDiskWriteCrashes(t *testing.T) {
	for _, on := range []string{"*hostcache.written", "*hostcache.ended", "*messages.UseImage"} {
		t.Run(on, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				crash := &testkit.Crash{On: on, Times: 1}
				f := newDiskFixture(t, 1<<20, t.TempDir(), 1<<20, nil, crash)
				dir := tinyModel(t, 1)
				f.load(dir)
				f.park()
				f.load(dir)
				f.park()
				f.onDisk(1)
				if crash.Crashed() == 0 {
					t.Error("nothing crashed")
				}
			})
		})
	}
}

// TestDiskImageOfDevice loads a model that does not fit into host memory. Its image is written from the
// device; the model is parked there, and loaded without its folder, with the same output.
func TestDiskImageOfDevice(t *testing.T) { synctest.Test(t, diskImageOfDevice) }

func diskImageOfDevice(t *testing.T) {
	dir := tinyModel(t, 1)
	for _, budget := range []int64{0, 1 << 10} {
		f := newDiskFixture(t, budget, t.TempDir(), 1<<20, nil, nil)
		f.revision = ""
		want := f.output(f.load(dir))
		s := f.onDisk(1)
		if i := s.GetImages()[0]; i.GetRevisionDigest() != f.revision || i.GetModel() != "m" {
			t.Errorf("%v", i)
		}
		f.park()
		if !f.events.have("weights.parked: m: ", "in an image on disk: no room") {
			t.Errorf("%v", f.events.all)
		}
		if loaded := f.load("gone"); f.output(loaded) != want || loaded.GetMetrics().GetSource() != diskImage {
			t.Errorf("with %d bytes of host memory: %s, want %s", budget, f.output(loaded), want)
		}
		f.park()
	}
}

// TestParkedToDisk parks a model before its image on disk is written, with and without crashes. It is
// written then, unless a crash prevents it. No crash leaves a part of a file, or takes its room.
func TestParkedToDisk(t *testing.T) {
	for _, on := range []string{
		"", "*messages.UseImage", "*messages.UseImageResult", "*hostcache.ended", "*gpu.weightsFreed",
	} {
		t.Run(on, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { parkedToDisk(t, on) })
		})
	}
}

func parkedToDisk(t *testing.T, on string) {
	var crash *testkit.Crash
	if on != "" {
		crash = &testkit.Crash{On: on, Times: 2}
	}
	f := newDiskFixture(t, 1<<10, t.TempDir(), 1<<20, nil, crash)
	dir := tinyModel(t, 1)
	want := f.output(f.load(dir))
	early, err := os.ReadDir(f.dir)
	if err != nil || crash == nil && len(early) > 0 {
		t.Fatal("the image was written before the model was parked", err)
	}
	f.park()
	switch {
	case crash == nil:
		f.onDisk(1)
		dir = "gone"
	case crash.Crashed() == 0:
		t.Fatal("nothing crashed")
	}
	if loaded := f.load(dir); f.output(loaded) != want {
		t.Errorf("%s, want %s", f.output(loaded), want)
	}
	time.Sleep(2 * time.Minute) // of the bubble: a write that has failed is tried again
	f.onDisk(1)
	f.park()
	s := f.onDisk(1)
	info, err := os.Stat(f.files(1)[0])
	if err != nil || info.Size() != int64(s.GetUsedBytes()) {
		t.Errorf("a file of %v, %d bytes are used: %v", info, s.GetUsedBytes(), err)
	}
}

// TestNoRoomToPark parks a model that fits neither into host memory nor on the disk. It is cold, and the event
// says why.
func TestNoRoomToPark(t *testing.T) { synctest.Test(t, noRoomToPark) }

func noRoomToPark(t *testing.T) {
	f := newDiskFixture(t, 1<<10, t.TempDir(), 1<<10, nil, nil)
	f.load(tinyModel(t, 1))
	f.park()
	if !f.events.have("weights.cold", "; nor on disk: 0 B of 1 KiB are used") {
		t.Errorf("%v", f.events.all)
	}
	f.onDisk(0)
}

// TestParkedOnDiskIsPinned checks that the image of a parked model is not evicted for another one, even after a
// restart, until the model is activated.
func TestParkedOnDiskIsPinned(t *testing.T) { synctest.Test(t, parkedOnDiskIsPinned) }

func parkedOnDiskIsPinned(t *testing.T) {
	images, dir := t.TempDir(), tinyModel(t, 1)
	f := newDiskFixture(t, 0, images, 1<<20, nil, nil)
	f.load(dir)
	parked, bytes := f.revision, int64(f.onDisk(1).GetUsedBytes())
	f.park()
	next := newDiskFixture(t, 0, images, bytes, nil, nil)
	spec := &messages.DeploymentSpec{Name: "m", Replicas: new(uint32(1)), Level: messages.Level_LEVEL_PARKED,
		RevisionDigest: parked}
	next.peer.Send(next.cache, &messages.ApplyDeployment{Spec: spec})
	next.load(tinyModel(t, 2))
	next.park()
	if i := next.onDisk(1).GetImages()[0]; i.GetRevisionDigest() != parked || !i.GetPinned() {
		t.Errorf("%v", i)
	}
	next.peer.Send(next.cache, &messages.RemoveDeployment{Name: "m"})
	next.load(tinyModel(t, 2))
	testkit.Until(t, "the other image", func() bool {
		i := next.onDisk(1).GetImages()[0]
		return i.GetRevisionDigest() == next.revision && !i.GetPinned()
	})
	next.park()
}
