package residency

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"troupe/engine"
)

// partSource is a source of an image whose weights are not in host memory.
type partSource interface {
	engine.ImageReader
	Image() *engine.Image
	Name() string
	Close() error
}

// Name returns the name of the source.
func (i *DiskImage) Name() string { return FromDiskImage }

// parts reads the parts of an image from several sources. If one fails, the next one goes on with the
// parts that are not there yet. Its methods are safe for concurrent use.
type parts struct {
	image   *engine.Image
	sources []partSource // of images with the same parts, the best first

	mu      sync.Mutex
	current int
	failed  []error // of the sources before the current one
}

// newParts returns the sources of the image of the first one. It closes those of images with other
// parts.
func newParts(sources []partSource) *parts {
	p := &parts{}
	for _, s := range sources {
		switch {
		case p.image == nil:
			p.image = s.Image()
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
	for {
		p.mu.Lock()
		n := p.current
		if n == len(p.sources) {
			defer p.mu.Unlock()
			return errors.Join(p.failed...)
		}
		p.mu.Unlock()
		err := p.sources[n].ReadPart(ctx, part, into)
		if err == nil || ctx.Err() != nil {
			return err
		}
		p.mu.Lock()
		if p.current == n {
			p.current++
			p.failed = append(p.failed, fmt.Errorf("%s: %w", p.sources[n].Name(), err))
		}
		p.mu.Unlock()
	}
}

// origin returns where the last parts came from, and why from there.
func (p *parts) origin(why string) Origin {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := errors.Join(p.failed...); err != nil {
		why = err.Error() + "; the rest is from here"
	}
	return Origin{Source: p.sources[min(p.current, len(p.sources)-1)].Name(), Why: why}
}

func (p *parts) close() (err error) {
	for _, s := range p.sources {
		err = errors.Join(err, s.Close())
	}
	return err
}
