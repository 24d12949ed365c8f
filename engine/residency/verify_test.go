package residency_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"troupe/core/hostcache"
	core "troupe/core/residency"
	"troupe/core/verify"
	"troupe/cuda"
	"troupe/cuda/host"
	"troupe/engine"
	"troupe/engine/llama"
	"troupe/engine/residency"
	"troupe/testkit/reference"
)

// damagingLoader loads models with the real loader, and then changes the weights on the device, so that no
// checksum and no digest can tell.
type damagingLoader struct {
	llama.Loader
	image, folder bool // damage loads from images, or from the folder
	loads         []string
}

// allocations notes the last allocation of a device.
type allocations struct {
	cuda.Device
	bytes int64 // of the allocations that it notes
	last  cuda.Ptr
}

func (a *allocations) Alloc(bytes int64) (cuda.Ptr, error) {
	p, err := a.Device.Alloc(bytes)
	if bytes == a.bytes {
		a.last = p
	}
	return p, err
}

// damage overwrites the weights on a device.
func damage(d cuda.Device, bytes int64, load func(cuda.Device) (engine.Weights, error)) (engine.Weights, error) {
	noted := &allocations{Device: d, bytes: bytes}
	w, err := load(noted)
	if err != nil {
		return nil, err
	}
	s, err := d.NewStream("damage")
	if err != nil {
		return nil, err
	}
	defer s.Close()
	memory, err := d.AllocHost(noted.bytes)
	if err != nil {
		return nil, err
	}
	defer memory.Free()
	b := memory.Bytes()[:noted.bytes]
	if err := errors.Join(s.CopyOut(b, noted.last), s.Sync()); err != nil {
		return nil, err
	}
	for i := range b[:len(b)-len(b)%8] {
		b[i] = b[i-i%8+7-i%8] // turns all elements around
	}
	return w, errors.Join(s.CopyIn(noted.last, b), s.Sync())
}

func (l *damagingLoader) LoadImage(ctx context.Context, d cuda.Device, i *engine.Image, memory []byte,
	from engine.ImageReader) (engine.Weights, error) {
	l.loads = append(l.loads, "image")
	load := func(d cuda.Device) (engine.Weights, error) { return l.Loader.LoadImage(ctx, d, i, memory, from) }
	if !l.image {
		return load(d)
	}
	return damage(d, i.Info.WeightBytes, load)
}

func (l *damagingLoader) LoadWithImage(ctx context.Context, d cuda.Device, path string, memory []byte) (engine.Weights,
	*engine.Image, error) {
	l.loads = append(l.loads, "folder")
	if !l.folder {
		return l.Loader.LoadWithImage(ctx, d, path, memory)
	}
	info, err := l.Inspect(path, d.Info())
	if err != nil {
		return nil, nil, err
	}
	var image *engine.Image
	w, err := damage(d, info.WeightBytes, func(d cuda.Device) (w engine.Weights, err error) {
		w, image, err = l.Loader.LoadWithImage(ctx, d, path, memory)
		return w, err
	})
	return w, image, err
}

func (l *damagingLoader) Load(ctx context.Context, d cuda.Device, path string) (engine.Weights, error) {
	w, _, err := l.LoadWithImage(ctx, d, path, nil)
	return w, err
}

// verified is a store that verifies what it loads.
type verified struct {
	t        *testing.T
	device   cuda.Device
	store    *residency.Store
	loader   *damagingLoader
	images   *residency.HostCache
	canaries *residency.Canaries
	path     string
	layout   string
	revision string
	tickets  int

	mu     sync.Mutex
	events []string
}

func newVerified(t *testing.T) *verified {
	d, err := host.Open(host.Config{MemoryBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	v := &verified{
		t: t, device: d, loader: &damagingLoader{}, images: residency.NewHostCache(d),
		path: reference.Random(t, reference.Shape{
			Architecture: "LlamaForCausalLM", DType: "BF16", Hidden: 16, Heads: 2, KVHeads: 1,
		}, 1),
	}
	v.store = residency.NewStore(d, v.loader)
	v.store.UseImages(v.images)
	v.canaries = newCanaries(v.publish)
	v.store.VerifyBy(v.canaries, "gpu-0")
	info, err := v.loader.Inspect(v.path, d.Info())
	if err != nil {
		t.Fatal(err)
	}
	v.layout = info.WeightLayout
	t.Cleanup(func() { _ = v.images.Close() })
	return v
}

func newCanaries(publish func(kind, subject, detail string)) *residency.Canaries {
	return residency.NewCanaries(residency.CanaryConfig{
		Node: "n", Version: "v1", Now: time.Now, Publish: publish,
		WithTimeout: func(ctx context.Context, _ time.Duration) (context.Context, context.CancelFunc) {
			return context.WithCancel(ctx)
		},
	})
}

func (v *verified) publish(kind, subject, detail string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.events = append(v.events, kind+" "+subject+" "+detail)
}

// load loads the model, with a ticket for its image, and returns where from.
func (v *verified) load() (residency.Loaded, error) {
	v.t.Helper()
	v.tickets++
	id, key := string(rune('a'+v.tickets)), hostcache.Key{Digest: "r", Layout: v.layout}
	fill := true
	for _, held := range v.images.Held() {
		if held.Key == key && held.Model != nil && held.Revoked == "" {
			fill = false
		} else if held.Key == key { // as the actor does with a damaged one
			if release := v.images.Free(key); release != nil {
				if err := release(); err != nil {
					v.t.Fatal(err)
				}
			}
		}
	}
	info, _ := v.loader.Inspect(v.path, v.device.Info())
	v.images.Reserve(key, info.WeightBytes)
	v.images.Issue(id, key, fill, time.Now().Add(time.Minute))
	from := core.Source{Model: "m", Path: v.path, Revision: v.revision}
	content, err := v.store.LoadWeights(v.t.Context(), 1, from, id)
	if err != nil {
		return residency.Loaded{}, err
	}
	v.revision = content.Revision
	s := spec("m-0")
	s.Limits = engine.Limits{StepTokens: 4, MaxSequences: 1}
	l, err := v.store.Lease(s, 1, "h")
	if err != nil {
		v.t.Fatal(err)
	}
	return l, nil
}

// output returns what a client gets.
func (v *verified) output() uint32 {
	v.t.Helper()
	e, err := v.store.Open("h")
	if err != nil {
		v.t.Fatal(err)
	}
	defer e.Close()
	tokens, err := e.Step(v.t.Context(), []engine.Sequence{{
		Tokens: []uint32{1, 5, 9}, Blocks: []int32{0}, Sample: true,
	}})
	if err != nil {
		v.t.Fatal(err)
	}
	return tokens[0].ID
}

// leave frees the lease and the weights.
func (v *verified) leave() {
	v.t.Helper()
	if _, err := v.store.Unload("m-0"); err != nil {
		v.t.Fatal(err)
	}
	if err := v.store.FreeWeights(1); err != nil {
		v.t.Fatal(err)
	}
	v.empty()
}

func (v *verified) empty() {
	v.t.Helper()
	if free, total := v.device.Memory(); free != total {
		v.t.Fatalf("%d bytes are left on the device", total-free)
	}
}

func (v *verified) images1() (all []residency.HeldImage) {
	for _, i := range v.images.Held() {
		if i.Revoked == "" && i.Model != nil {
			all = append(all, i)
		}
	}
	return all
}

// TestDamagedImageIsReplacedByTheFolder wakes a model from an image that arrives damaged on the device,
// which no checksum shows. The first client gets the right tokens, from the folder; the image is dropped,
// and the next load fills another one.
func TestDamagedImageIsReplacedByTheFolder(t *testing.T) {
	v := newVerified(t)
	first, err := v.load()
	if err != nil || first.From.Source != "disk" || first.From.Verify <= 0 {
		t.Fatal(first.From, err)
	}
	want := v.output()
	v.leave()
	if woken, err := v.load(); err != nil || woken.From.Source != residency.FromHostCache || v.output() != want {
		t.Fatalf("woken from %+v, %v", woken.From, err)
	}
	v.leave()
	if c := v.canaries.Counts(); c.Recorded != 1 || c.Passed != 1 || c.Rejected != 0 || c.Took <= 0 {
		t.Errorf("%+v", c)
	}

	v.loader.image, v.loader.loads = true, nil
	woken, err := v.load()
	if err != nil || v.output() != want {
		t.Fatalf("woken from %+v, %v", woken.From, err)
	}
	if woken.From.Source != "disk" || !strings.Contains(woken.From.Why, "host cache: token 1 of its canary is") {
		t.Errorf("%+v", woken.From)
	}
	if len(v.events) != 1 || !strings.HasPrefix(v.events[0], "weights.rejected n/gpu-0 m from host cache: token 1") {
		t.Errorf("events: %q", v.events)
	}
	if len(v.images1()) != 0 || strings.Join(v.loader.loads, " ") != "image folder" {
		t.Errorf("%d images, loads: %v", len(v.images1()), v.loader.loads)
	}
	if c := v.canaries.Counts(); c.Recorded != 1 || c.Passed != 2 || c.Rejected != 1 {
		t.Errorf("%+v", c)
	}
	v.leave()
}

// TestAllSourcesDamaged damages each source. The load fails with an error that names them, and leaves
// nothing on the device or in the host cache. It works again once the damage is over.
func TestAllSourcesDamaged(t *testing.T) {
	v := newVerified(t)
	if _, err := v.load(); err != nil {
		t.Fatal(err)
	}
	want := v.output()
	v.leave()
	v.loader.image, v.loader.folder = true, true
	_, err := v.load()
	failed := (*residency.Unverified)(nil)
	if !errors.As(err, &failed) || verify.Names(failed.Rejections) != "host cache, disk" ||
		failed.Device != "n/gpu-0" {
		t.Fatalf("%v", err)
	}
	for _, part := range []string{
		v.path, "n/gpu-0", "host cache: token 1", "disk: token 1", "delete the key canaries." + v.revision,
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q lacks %q", err, part)
		}
	}
	v.empty()
	if len(v.images1()) != 0 {
		t.Errorf("%d images are left", len(v.images1()))
	}
	if _, err := v.load(); !errors.As(err, &failed) || len(v.images1()) != 0 {
		t.Errorf("a fill with wrong weights: %v, %d images", err, len(v.images1()))
	}
	v.loader.image, v.loader.folder = false, false
	if l, err := v.load(); err != nil || l.From.Source != "disk" || v.output() != want {
		t.Errorf("%+v, %v", l.From, err)
	}
	v.leave()
}

// TestOtherFilesHaveAnotherRecord replaces the folder: the tokens of the new files are recorded apart.
func TestOtherFilesHaveAnotherRecord(t *testing.T) {
	v := newVerified(t)
	if _, err := v.load(); err != nil {
		t.Fatal(err)
	}
	v.leave()
	other := reference.Random(t, reference.Shape{
		Architecture: "LlamaForCausalLM", DType: "BF16", Hidden: 16, Heads: 2, KVHeads: 1,
	}, 2)
	v.path, v.revision = other, ""
	if release := v.images.Free(hostcache.Key{Digest: "r", Layout: v.layout}); release != nil {
		_ = release()
	}
	if _, err := v.load(); err != nil || v.canaries.Counts().Recorded != 2 {
		t.Errorf("%v, %+v", err, v.canaries.Counts())
	}
	v.leave()
}
