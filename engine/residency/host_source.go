package residency

import (
	"context"
	"errors"

	"github.com/zeebo/xxh3"

	"troupe/core/loadsource"
	core "troupe/core/residency"
	"troupe/engine"
)

// hostSource is the image in host memory as one source of several. A load from this image alone uses the memory
// in place.
type hostSource struct {
	SourceName
	use    *ImageUse
	image  *engine.Image
	memory []byte
}

// hostSource returns the image of a use as a source; nil if it cannot be one.
func (s *Store) hostSource(use *ImageUse, from core.Source) *hostSource {
	image := use.Image()
	if image == nil || s.fits(image, from) != nil {
		return nil
	}
	memory, err := use.Memory()
	if err != nil {
		return nil
	}
	return &hostSource{SourceName{loadsource.Host, FromHostCache}, use, image, memory}
}

// fits returns why an image is not that of a source on this device, or nil.
func (s *Store) fits(image *engine.Image, from core.Source) error {
	if _, ok := s.loader.(engine.ImageLoader); !ok || !image.Fits(s.device.Info()) {
		return errors.New("the image is not one for this device")
	}
	if from.Revision != "" && image.Digests.Revision != from.Revision {
		return errors.New("the image has another revision")
	}
	return nil
}

// Begin implements ImageSource.
func (h *hostSource) Begin([]int) {}

// Image implements ImageSource.
func (h *hostSource) Image() *engine.Image { return h.image }

// ReadPart implements engine.ImageReader.
func (h *hostSource) ReadPart(_ context.Context, part int, into []byte) error {
	sum := h.image.Sums[part]
	copy(into, h.memory[sum.Offset:][:sum.Bytes])
	if xxh3.Hash(into[:sum.Bytes]) != sum.Sum {
		damaged := &engine.DamagedImage{Path: h.image.Path, Offset: sum.Offset}
		h.use.Damaged(damaged)
		return damaged
	}
	return nil
}

// Drop drops the image.
func (h *hostSource) Drop(why string) { h.use.Damaged(errors.New(why)) }

// Close implements ImageSource. The use ends with the load.
func (h *hostSource) Close() error { return nil }
