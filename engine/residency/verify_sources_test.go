package residency_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"troupe/core/loadsource"
	"troupe/cuda/host"
	"troupe/engine"
	"troupe/engine/llama"
	"troupe/engine/residency"
	"troupe/testkit/reference"
)

// imageOfModel returns the image of a model, with the digests of another one.
func imageOfModel(t *testing.T, path string, digests engine.Digests) (*engine.Image, []byte) {
	t.Helper()
	d, err := host.Open(host.Config{MemoryBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	info, err := llama.Loader{}.Inspect(path, d.Info())
	if err != nil {
		t.Fatal(err)
	}
	memory := make([]byte, info.WeightBytes)
	_, image, err := llama.Loader{}.LoadWithImage(t.Context(), d, path, memory)
	if err != nil {
		t.Fatal(err)
	}
	if digests.Revision != "" {
		image.Digests = digests
	}
	return image, memory
}

// TestSuspectedNodeIsNotChosenAgain loads from a node whose image has other weights, with the checksums of
// those. They are dropped, and the node is not asked again until its image has other parts.
func TestSuspectedNodeIsNotChosenAgain(t *testing.T) {
	v := newVerified(t)
	if _, err := v.load(); err != nil {
		t.Fatal(err)
	}
	want := v.output()
	v.leave()
	right, rightMemory := imageOfModel(t, v.path, engine.Digests{})
	other := reference.Random(t, reference.Shape{
		Architecture: "LlamaForCausalLM", DType: "BF16", Hidden: 16, Heads: 2, KVHeads: 1,
	}, 2)
	wrong, wrongMemory := imageOfModel(t, other, right.Digests)

	v.store.UseImages(nil)
	speeds := &residency.Speeds{}
	v.store.ShareSpeeds(speeds, "gpu-0")
	wake := func(image *engine.Image, content []byte) (from residency.Origin, read int) {
		t.Helper()
		for range 10 { // loads of the folder, so slow that a node is expected to be faster
			speeds.Observe(loadsource.Path{Kind: loadsource.Folder, From: residency.DiskOf(v.path)}, 1, time.Second)
		}
		node := &source{name: "node b", image: image, content: content, parts: 1000, read: make(map[int]int)}
		v.store.UseOtherNodes(nodes{node})
		l, err := v.load()
		if err != nil || v.output() != want || !node.closed {
			t.Fatalf("%+v, %v, closed: %v", l.From, err, node.closed)
		}
		v.leave()
		return l.From, len(node.read)
	}
	from, read := wake(wrong, wrongMemory)
	if from.Source != "disk" || read == 0 || !strings.Contains(from.Why, "node b: token") {
		t.Errorf("wrong node: %+v, %d parts", from, read)
	}
	if from, read := wake(wrong, wrongMemory); from.Source != "disk" || read != 0 {
		t.Errorf("suspected node: %+v, %d parts", from, read)
	}
	if from, read := wake(right, rightMemory); from.Source != "node b" || read == 0 {
		t.Errorf("node with a new image: %+v, %d parts", from, read)
	}
}

// TestDiskImageWithOtherWeightsIsDeleted loads from an image on disk that was written with other weights.
func TestDiskImageWithOtherWeightsIsDeleted(t *testing.T) {
	v := newVerified(t)
	if _, err := v.load(); err != nil {
		t.Fatal(err)
	}
	want := v.output()
	v.leave()
	right, _ := imageOfModel(t, v.path, engine.Digests{})
	other := reference.Random(t, reference.Shape{
		Architecture: "LlamaForCausalLM", DType: "BF16", Hidden: 16, Heads: 2, KVHeads: 1,
	}, 2)
	wrong, memory := imageOfModel(t, other, right.Digests)
	dir := t.TempDir()
	disk, err := residency.OpenDiskImages(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, epoch := disk.Held()
	if err := disk.Write(t.Context(), epoch, wrong, memory); err != nil {
		t.Fatal(err)
	}
	v.store.UseImages(nil)
	v.store.UseDiskImages(disk)
	l, err := v.load()
	if err != nil || l.From.Source != "disk" || v.output() != want || len(v.events) != 1 {
		t.Fatalf("%+v, %v, %q", l.From, err, v.events)
	}
	v.leave()
	_, damaged := disk.TakeUsed()
	if files, err := os.ReadDir(dir); err != nil || len(files) != 0 || len(damaged) != 1 {
		t.Errorf("%d files, %v, %v", len(files), damaged, err)
	}
}
