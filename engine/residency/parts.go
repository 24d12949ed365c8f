package residency

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"troupe/core/loadsource"
	"troupe/core/units"
	"troupe/core/verify"
	"troupe/cuda"
	"troupe/engine"
)

// ImageSource is a source of an image whose weights are not in host memory.
type ImageSource interface {
	engine.PartsFile
	// Begin is called once before the first part is read, with the parts that are missing.
	Begin(missing []int)
	Image() *engine.Image
	Kind() loadsource.Kind
	Name() string
}

// OtherNodes finds images that other nodes have. It is safe for concurrent use.
type OtherNodes interface {
	// Header returns the image of a revision that fits a device, without its weights; nil if there is
	// none. It checks the digest of its files.
	Header(revision string, on cuda.Info) *engine.Image
	// Has returns the name of a source on another node that has the image; empty: there is none.
	Has(revision string, on cuda.Info) (source string)
	// Open returns the nodes that have the image.
	Open(ctx context.Context, revision string, on cuda.Info) []ImageSource
}

// Begin implements ImageSource.
func (i *DiskImage) Begin([]int) {}

// Kind implements ImageSource.
func (i *DiskImage) Kind() loadsource.Kind { return loadsource.DiskImage }

// Name implements ImageSource.
func (i *DiskImage) Name() string { return string(loadsource.DiskImage) }

// folderSource reads the folder of a model whose image is known.
type folderSource struct {
	engine.PartsFile
	image *engine.Image
}

func (f folderSource) Begin([]int)           {}
func (f folderSource) Image() *engine.Image  { return f.image }
func (f folderSource) Kind() loadsource.Kind { return loadsource.Folder }
func (f folderSource) Name() string          { return string(loadsource.Folder) }

// parts reads the parts of an image from several sources. If one fails, the next one goes on with the
// parts that are not there yet. Its methods are safe for concurrent use.
type parts struct {
	image   *engine.Image
	sources []ImageSource // of images with the same parts, the best first

	mu      sync.Mutex
	current int
	failed  []error // of the sources before the current one
	read    []int64 // bytes, by source
	begun   []bool  // by source
	done    []bool  // by part
}

// newParts returns the sources of the image of the first one. It closes those of images with other
// parts.
func newParts(sources []ImageSource) *parts {
	p := &parts{read: make([]int64, len(sources)), begun: make([]bool, len(sources))}
	for _, s := range sources {
		switch {
		case p.image == nil:
			p.image, p.done = s.Image(), make([]bool, len(s.Image().Sums))
		case !sameContent(p.image, s.Image()):
			_ = s.Close()
			continue
		}
		p.sources = append(p.sources, s)
	}
	return p
}

func sameContent(a, b *engine.Image) bool {
	if a.Digests != b.Digests || len(a.Sums) != len(b.Sums) {
		return false
	}
	for i := range a.Sums {
		if a.Sums[i] != b.Sums[i] {
			return false
		}
	}
	return true
}

// ReadPart implements engine.ImageReader.
func (p *parts) ReadPart(ctx context.Context, part int, into []byte) error {
	_, err := p.bring(ctx, part, func(s ImageSource) (bool, error) { return true, s.ReadPart(ctx, part, into) })
	return err
}

// CopyPart implements engine.PartCopier. It copies nothing if the source that is used now cannot.
func (p *parts) CopyPart(ctx context.Context, part int, to cuda.Device, at cuda.Ptr, into []byte) (bool, error) {
	return p.bring(ctx, part, func(s ImageSource) (bool, error) {
		if c, ok := s.(engine.PartCopier); ok {
			return c.CopyPart(ctx, part, to, at, into)
		}
		return false, nil
	})
}

// bring lets the sources bring a part, one after the other until one succeeds. It returns false if a source
// has not failed, and yet has not brought it.
func (p *parts) bring(ctx context.Context, part int, by func(ImageSource) (bool, error)) (bool, error) {
	for {
		p.mu.Lock()
		n := p.current
		if n == len(p.sources) {
			defer p.mu.Unlock()
			return false, errors.Join(p.failed...)
		}
		if !p.begun[n] {
			p.begun[n] = true
			p.sources[n].Begin(p.missing())
		}
		p.mu.Unlock()
		done, err := by(p.sources[n])
		if err == nil && !done || err != nil && ctx.Err() != nil {
			return false, err
		}
		p.mu.Lock()
		if err == nil {
			p.read[n] += p.image.Sums[part].Bytes
			p.done[part] = true
			p.mu.Unlock()
			return true, nil
		}
		if p.current == n {
			p.current++
			p.failed = append(p.failed, fmt.Errorf("%s: %w", p.sources[n].Name(), err))
		}
		p.mu.Unlock()
	}
}

// missing returns the parts that were not read yet. The lock is held.
func (p *parts) missing() (all []int) {
	for i, done := range p.done {
		if !done {
			all = append(all, i)
		}
	}
	return all
}

// origin returns where the last parts came from, and why from there.
func (p *parts) origin(why string) Origin {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := p.sources[min(p.current, len(p.sources)-1)]
	if err := errors.Join(p.failed...); err != nil {
		why = fmt.Sprintf("%v; %s had the rest of %s of %s", err, last.Name(),
			units.FormatBytes(p.read[min(p.current, len(p.sources)-1)]), units.FormatBytes(p.image.Info.WeightBytes))
	}
	return Origin{Source: last.Name(), Why: why}
}

// only returns the source that has delivered all parts; nil if there were several.
func (p *parts) only() ImageSource {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current == 0 {
		return p.sources[0]
	}
	return nil
}

// delivered calls f for each source with the bytes that it has delivered.
func (p *parts) delivered(f func(s ImageSource, bytes int64)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n, s := range p.sources {
		f(s, p.read[n])
	}
}

// contributors returns the sources that have delivered parts.
func (p *parts) contributors() (all []verify.Source) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n, s := range p.sources {
		if p.read[n] > 0 {
			all = append(all, verify.Source{Name: s.Name(), Doubtful: s.Kind() != loadsource.Folder})
		}
	}
	return all
}

// dropper is an ImageSource whose image can be dropped.
type dropper interface{ Drop(why string) }

// versioner is an ImageSource that has another version when its image was replaced by one with the same
// parts.
type versioner interface{ Version() string }

// drop drops the image of a source, if it is on this node.
func (p *parts) drop(source, why string) {
	if d, ok := p.find(source).(dropper); ok {
		d.Drop(why)
	}
}

// versions returns what each source has, by name.
func (p *parts) versions() map[string]string {
	all := make(map[string]string)
	for _, s := range p.sources {
		all[s.Name()] = versionOf(s)
	}
	return all
}

func (p *parts) find(source string) ImageSource {
	for _, s := range p.sources {
		if s.Name() == source {
			return s
		}
	}
	return nil
}

func (p *parts) close() (err error) {
	for _, s := range p.sources {
		err = errors.Join(err, s.Close())
	}
	return err
}
