package residency_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/zeebo/xxh3"

	"troupe/core/loadsource"
	core "troupe/core/residency"
	"troupe/cuda"
	"troupe/cuda/host"
	"troupe/engine"
	"troupe/engine/residency"
)

// imageModel is a model that is loaded from images alone.
type imageModel struct {
	fakeModel
	loaded []byte
}

type imageWeights struct {
	engine.Weights
	image *engine.Image
	d     cuda.Device
	at    cuda.Ptr
}

func (w imageWeights) Digests() engine.Digests { return w.image.Digests }
func (w imageWeights) Info() engine.ModelInfo  { return w.image.Info }
func (w imageWeights) Free() error             { return w.d.Free(w.at) }

var errNoFolder = errors.New("no such folder")

func (m *imageModel) Inspect(string, cuda.Info) (engine.ModelInfo, error) {
	return engine.ModelInfo{}, errNoFolder
}

func (m *imageModel) Load(context.Context, cuda.Device, string) (engine.Weights, error) {
	return nil, errNoFolder
}

func (m *imageModel) LoadWithImage(context.Context, cuda.Device, string, []byte) (engine.Weights, *engine.Image,
	error) {
	return nil, nil, errNoFolder
}

func (m *imageModel) CopyToImage(context.Context, engine.Weights, []byte) (*engine.Image, error) {
	return nil, errors.ErrUnsupported
}

func (m *imageModel) LoadImage(ctx context.Context, d cuda.Device, i *engine.Image, _ []byte,
	from engine.ImageReader) (engine.Weights, error) {
	m.loaded = make([]byte, i.Info.WeightBytes)
	var workers sync.WaitGroup
	errs := make([]error, len(i.Sums))
	for n, s := range i.Sums {
		workers.Go(func() { errs[n] = from.ReadPart(ctx, n, m.loaded[s.Offset:][:s.Bytes]) })
		if n == len(i.Sums)/2 {
			workers.Wait() // the rest comes later
		}
	}
	workers.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	at, err := d.Alloc(i.Info.WeightBytes)
	return imageWeights{image: i, d: d, at: at}, err
}

// source has the content of an image, and fails after some parts.
type source struct {
	name    string
	image   *engine.Image
	content []byte
	parts   int // that it delivers

	mu     sync.Mutex
	read   map[int]int
	asked  []int // parts that were missing
	closed bool
}

func (s *source) Begin(missing []int) { s.asked = missing }

func (s *source) Image() *engine.Image  { return s.image }
func (s *source) Kind() loadsource.Kind { return loadsource.Node }
func (s *source) Name() string          { return s.name }
func (s *source) Close() error          { s.closed = true; return nil }

func (s *source) ReadPart(_ context.Context, part int, into []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.read) >= s.parts {
		return errors.New(s.name + " is lost")
	}
	s.read[part]++
	sum := s.image.Sums[part]
	copy(into, s.content[sum.Offset:][:sum.Bytes])
	return nil
}

// nodes are other nodes with sources.
type nodes []*source

func (n nodes) Header(string, cuda.Info) *engine.Image { return n[0].image }

func (n nodes) Has(string, cuda.Info) string { return n[0].name }

func (n nodes) Open(context.Context, string, cuda.Info) (all []residency.ImageSource) {
	for _, s := range n {
		all = append(all, s)
	}
	return all
}

func imageOf(content []byte, part int) *engine.Image {
	i := &engine.Image{Digests: engine.Digests{Weights: "w", Revision: "r"}}
	i.Info.WeightBytes, i.Info.KVTokenBytes = int64(len(content)), 64
	for at := 0; at < len(content); at += part {
		b := content[at:min(at+part, len(content))]
		i.Sums = append(i.Sums, engine.ImageSum{Offset: int64(at), Bytes: int64(len(b)), Sum: xxh3.Hash(b)})
	}
	return i
}

// TestNextSourceGoesOn lets sources fail in the middle. The next one delivers the parts that are missing,
// and no other ones. If all fail, nothing stays on the device, and the error names each.
func TestNextSourceGoesOn(t *testing.T) {
	content := bytes.Repeat([]byte("weights!"), 1000)
	image := imageOf(content, 100)
	const inFlight = 41 // parts that imageModel reads at once
	for _, c := range []struct {
		parts []int // that each source delivers
		from  string
	}{
		{[]int{100}, "node 0"}, {[]int{30, 100}, "node 1"}, {[]int{0, 100}, "node 1"}, {[]int{20, 30, 40}, "node 2"},
		{[]int{20, 30, 29}, ""},
	} {
		var all nodes
		for n, parts := range c.parts {
			all = append(all, &source{
				name: "node " + string(rune('0'+n)), image: image, content: content, parts: parts,
				read: make(map[int]int),
			})
		}
		d, err := host.Open(host.Config{MemoryBytes: 64 << 20})
		if err != nil {
			t.Fatal(err)
		}
		model := &imageModel{}
		s := residency.NewStore(d, model)
		s.UseOtherNodes(all)
		_, err = s.LoadWeights(t.Context(), 1, core.Source{Path: "m", Revision: "r"}, "")
		read := make(map[int]int)
		for _, one := range all {
			if len(one.asked) < len(one.read) || len(one.asked) > len(image.Sums)-len(read)+inFlight {
				t.Errorf("%v: %s was asked for %d parts", c.parts, one.name, len(one.asked))
			}
			if !one.closed {
				t.Errorf("%v: %s is not closed", c.parts, one.name)
			}
			for part, times := range one.read {
				if read[part] += times; !slices.Contains(one.asked, part) {
					t.Errorf("%v: %s was not asked for part %d", c.parts, one.name, part)
				}
			}
		}
		for part, times := range read {
			if times != 1 {
				t.Errorf("%v: part %d was delivered %d times", c.parts, part, times)
			}
		}
		if c.from == "" {
			if err == nil || !errors.Is(err, errNoFolder) {
				t.Errorf("%v: %v", c.parts, err)
			}
		} else if err != nil || !bytes.Equal(model.loaded, content) || len(read) != len(image.Sums) {
			t.Errorf("%v: %v, %d parts", c.parts, err, len(read))
		} else if l, err := s.Lease(spec("m-0"), 1, "h"); err != nil || l.From.Source != c.from || l.From.Why == "" {
			t.Errorf("%v: from %+v, %v", c.parts, l.From, err)
		}
		if free, total := d.Memory(); c.from == "" && free != total {
			t.Errorf("%d bytes are left", total-free)
		}
		_ = d.Close()
	}
}
