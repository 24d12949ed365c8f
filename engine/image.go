package engine

import (
	"context"
	"fmt"

	"troupe/cuda"
	"troupe/modelfile"
)

// Image is a model in host memory. Its weights have the layout of a device, so that a load from it
// is plain copies, and it has the other files that a replica and a gateway need. It is immutable.
type Image struct {
	Path    string // folder that it was loaded from
	Digests Digests
	Info    ModelInfo  // on the kind of device that it was made for
	Weights cuda.DType // that this kind of device prefers
	Files   modelfile.Files
	Sums    []ImageSum // of all bytes of the weights, part by part
}

// ImagePartBytes is the size of the parts of an image, but for the last one. The bytes between tensors
// are zero, so that images of the same content have the same parts.
const ImagePartBytes = 4 << 20

// ImageSum is the checksum (XXH3) of a part of an image's weights.
type ImageSum struct {
	Offset, Bytes int64
	Sum           uint64
}

// ImageReader reads the parts of an image that is not in memory, and verifies them. It is safe for
// concurrent use.
type ImageReader interface {
	ReadPart(ctx context.Context, part int, into []byte) error
}

// Fits reports whether the image can be loaded onto a device.
func (i *Image) Fits(d cuda.Info) bool { return i.Weights == d.Weights }

// InfoOn returns the description of the model on a device that the image fits.
func (i *Image) InfoOn(d cuda.Info) ModelInfo {
	info := i.Info
	info.StreamBytes, info.GraphOpBytes = d.StreamBytes, d.GraphOpBytes
	return info
}

// ImageLoader is a Loader of models that can be kept as images.
type ImageLoader interface {
	Loader
	// LoadWithImage is like Load, and fills memory of WeightBytes bytes with the weights of an image
	// meanwhile. The files are read once. Without memory, it returns no image.
	LoadWithImage(ctx context.Context, device cuda.Device, path string, memory []byte) (Weights, *Image, error)
	// LoadImage loads an image into device memory. Its weights are in memory, unless there is a reader:
	// then they are read from there, and are left in memory if that is not nil. If the content of the
	// memory is damaged, the error is a *DamagedImage. If it fails, it frees all device memory.
	LoadImage(ctx context.Context, device cuda.Device, image *Image, memory []byte, from ImageReader) (Weights, error)
	// CopyToImage copies weights on a device to memory of WeightBytes bytes.
	CopyToImage(ctx context.Context, weights Weights, memory []byte) (*Image, error)
}

// PartsFile reads the parts of an image from files.
type PartsFile interface {
	ImageReader
	Close() error
}

// FolderLoader is an ImageLoader that can read the parts of an image from the folder of its model.
type FolderLoader interface {
	OpenParts(path string, image *Image, device cuda.Info) (PartsFile, error)
}

// DamagedImage is the error for an image whose content is not what was stored.
type DamagedImage struct {
	Path   string
	Offset int64
}

func (e *DamagedImage) Error() string {
	return fmt.Sprintf("the image of %s is damaged at byte %d", e.Path, e.Offset)
}
