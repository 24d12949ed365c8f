package llama

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/zeebo/xxh3"

	"troupe/cuda"
	"troupe/engine"
)

var _ engine.ReadableWeights = (*Weights)(nil)

// knownSums are the checksums of the parts of weights, as far as they are known. Weights that were loaded
// from an image, or that have left one, have all of them.
type knownSums struct {
	mu   sync.Mutex // held while they are computed
	sums []engine.ImageSum
	next int // first part whose checksum is not known
}

// Header implements engine.ReadableWeights.
func (w *Weights) Header() *engine.Image {
	i := w.image()
	i.Sums = partsOf(w.info.WeightBytes)
	return i
}

// OpenParts implements engine.ReadableWeights.
func (w *Weights) OpenParts(ctx context.Context) (engine.WeightsParts, error) {
	p := &weightsParts{w: w, gaps: w.gaps(), idle: make(map[cuda.Device][]*lane)}
	sums, err := w.allSums(ctx, p)
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	p.image = w.image()
	p.image.Sums = sums
	return p, nil
}

// setSums stores the checksums of all parts, unless they are known.
func (w *Weights) setSums(sums []engine.ImageSum) {
	w.known.mu.Lock()
	defer w.known.mu.Unlock()
	if w.known.next < len(sums) {
		w.known.sums, w.known.next = sums, len(sums)
	}
}

// allSums returns the checksums of all parts, and computes those that are not known. If it fails, the next call
// continues after the checksums that it has computed.
func (w *Weights) allSums(ctx context.Context, p *weightsParts) ([]engine.ImageSum, error) {
	k := &w.known
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.sums == nil {
		k.sums = partsOf(w.info.WeightBytes)
	}
	for k.next < len(k.sums) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		batch := k.sums[k.next:min(k.next+16*imageWorkers, len(k.sums))]
		if err := p.sum(batch); err != nil {
			return nil, err
		}
		k.next += len(batch)
	}
	return k.sums, nil
}

// weightsParts reads the parts of weights on a device.
type weightsParts struct {
	w     *Weights
	image *engine.Image
	gaps  []gap

	mu   sync.Mutex
	idle map[cuda.Device][]*lane
}

// lane copies one part at a time on a stream of its own.
type lane struct {
	stream  cuda.Stream
	staging cuda.HostMemory
}

// Image implements engine.WeightsParts.
func (p *weightsParts) Image() *engine.Image { return p.image }

// sum computes checksums.
func (p *weightsParts) sum(parts []engine.ImageSum) error {
	var next atomic.Int64
	errs := make([]error, imageWorkers)
	var workers sync.WaitGroup
	for worker := range errs {
		workers.Go(func() {
			for errs[worker] == nil {
				i := int(next.Add(1)) - 1
				if i >= len(parts) {
					return
				}
				errs[worker] = p.with(p.w.device, func(l *lane) error {
					b := l.staging.Bytes()[:parts[i].Bytes]
					err := l.fetch(b, p.w.base.Offset(parts[i].Offset))
					p.clearGaps(b, parts[i].Offset)
					parts[i].Sum = xxh3.Hash(b)
					return err
				})
			}
		})
	}
	workers.Wait()
	return errors.Join(errs...)
}

// ReadPart implements engine.ImageReader.
func (p *weightsParts) ReadPart(ctx context.Context, part int, into []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return p.with(p.w.device, func(l *lane) error {
		s := p.image.Sums[part]
		return p.arrive(l, p.w.device, p.w.base.Offset(s.Offset), s, into)
	})
}

// CopyPart implements engine.PartCopier.
func (p *weightsParts) CopyPart(ctx context.Context, part int, to cuda.Device, at cuda.Ptr, into []byte) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if to == p.w.device || !p.reaches(to) {
		return false, nil
	}
	can := true
	err := p.with(to, func(l *lane) error {
		copier, err := cuda.As[cuda.PeerCopier](l.stream)
		if err == nil {
			s := p.image.Sums[part]
			if err = copier.CopyPeer(at, p.w.device, p.w.base.Offset(s.Offset), s.Bytes); err == nil {
				return p.arrive(l, to, at, s, into)
			}
		}
		if can = !errors.Is(err, errors.ErrUnsupported); !can {
			return nil
		}
		return err
	})
	return can && err == nil, err
}

// reaches reports whether a device can copy from that of the weights, and lets it do so directly where the
// machine can.
func (p *weightsParts) reaches(to cuda.Device) bool {
	peers, err := cuda.As[cuda.Peers](to)
	if err != nil {
		return false
	}
	if peers.Reaches(p.w.device) {
		_ = peers.EnablePeer(p.w.device) // the driver copies through the host otherwise
	}
	return true
}

// arrive copies a part from a device to host memory, and verifies it there.
func (p *weightsParts) arrive(l *lane, on cuda.Device, at cuda.Ptr, s engine.ImageSum, into []byte) error {
	b := into
	if into == nil || !locked(on, into) {
		b = l.staging.Bytes()[:s.Bytes]
	}
	if err := l.fetch(b, at); err != nil {
		return err
	}
	p.clearGaps(b, s.Offset)
	if xxh3.Hash(b) != s.Sum {
		return &engine.DamagedImage{Path: p.w.path, Offset: s.Offset}
	}
	if into != nil && &into[0] != &b[0] {
		copy(into, b)
	}
	return nil
}

// clearGaps clears what is between tensors in a part at an offset.
func (p *weightsParts) clearGaps(part []byte, offset int64) {
	first, _ := slices.BinarySearchFunc(p.gaps, offset, func(g gap, at int64) int { return cmp.Compare(g.end, at+1) })
	clearGaps(part, offset, p.gaps[first:])
}

// with calls f with a lane on a device. A lane on which something has failed is not used again.
func (p *weightsParts) with(d cuda.Device, f func(*lane) error) error {
	p.mu.Lock()
	var l *lane
	if idle := p.idle[d]; len(idle) > 0 {
		l, p.idle[d] = idle[len(idle)-1], idle[:len(idle)-1]
	}
	p.mu.Unlock()
	if l == nil {
		var err error
		if l, err = newLane(d); err != nil {
			return err
		}
	}
	if err := f(l); err != nil {
		return errors.Join(err, l.close())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle[d] = append(p.idle[d], l)
	return nil
}

// Close implements engine.PartsFile. Nothing may be read meanwhile.
func (p *weightsParts) Close() (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, idle := range p.idle {
		for _, l := range idle {
			err = errors.Join(err, l.close())
		}
	}
	clear(p.idle)
	return err
}

func newLane(d cuda.Device) (*lane, error) {
	stream, err := d.NewStream("weights")
	if err != nil {
		return nil, err
	}
	staging, err := d.AllocHost(engine.ImagePartBytes)
	if err != nil {
		return nil, errors.Join(err, stream.Close())
	}
	return &lane{stream, staging}, nil
}

// fetch copies from the device to page-locked memory.
func (l *lane) fetch(to []byte, from cuda.Ptr) error {
	if err := l.stream.CopyOut(to, from); err != nil {
		return err
	}
	return l.stream.Sync()
}

func (l *lane) close() error { return errors.Join(l.stream.Close(), l.staging.Free()) }
