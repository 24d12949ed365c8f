package engine

import (
	"context"

	"troupe/cuda"
)

// ReadableWeights are Weights that can be read from their device, as the parts of an image.
type ReadableWeights interface {
	Weights
	// Header returns the image of the weights without their content. Its parts may have no checksums.
	Header() *Image
	// OpenParts returns a reader, which uses streams of its own and copies one part at a time on each. It
	// computes the checksums of the image, unless they are known. The weights must not be freed before
	// the reader is closed.
	OpenParts(ctx context.Context) (WeightsParts, error)
}

// WeightsParts reads and verifies the parts of an image from weights on a device.
type WeightsParts interface {
	PartsFile
	PartCopier
	Image() *Image
}

// PartCopier is an ImageReader that may copy parts to a device without passing them through host memory.
// It is safe for concurrent use.
type PartCopier interface {
	// CopyPart copies a part to an address on a device, verifies what has arrived, and leaves it in into
	// too unless that is nil. It returns false if it cannot copy directly; then use ReadPart.
	CopyPart(ctx context.Context, part int, to cuda.Device, at cuda.Ptr, into []byte) (bool, error)
}
