package dst

import (
	"bytes"
	"context"
	"errors"

	"github.com/zeebo/xxh3"

	"troupe/cuda"
	"troupe/engine"
	"troupe/messages"
	"troupe/modelfile"
	"troupe/node/query"
)

// An image of the simulation has the path of its model in its memory, which decides on the tokens that
// replicas compute with it. A load from an image is faster than one from the folder, by imageSpeed.
const (
	imageBytes = 256
	imageSpeed = 10
)

var _ engine.ImageLoader = (*Loader)(nil)

// imageOf writes weights to the memory of an image.
func imageOf(w *weights, memory []byte) *engine.Image {
	clear(memory[:imageBytes])
	copy(memory, w.path)
	return &engine.Image{
		Path: w.path, Digests: w.Digests(), Info: w.Info(), Weights: w.device.Info().Weights,
		Files: modelfile.Files{"config.json": {Content: []byte(w.path)}},
		Sums:  []engine.ImageSum{{Bytes: imageBytes, Sum: xxh3.Hash(memory[:imageBytes])}},
	}
}

// LoadWithImage implements engine.ImageLoader.
func (l *Loader) LoadWithImage(ctx context.Context, device cuda.Device, path string, memory []byte) (engine.Weights,
	*engine.Image, error) {
	loaded, err := l.Load(ctx, device, path)
	if err != nil {
		return nil, nil, err
	}
	return loaded, imageOf(loaded.(*weights), memory), nil
}

// LoadImage implements engine.ImageLoader.
func (l *Loader) LoadImage(ctx context.Context, device cuda.Device, image *engine.Image, memory []byte,
	_ engine.ImageReader) (engine.Weights, error) {
	content := memory[:imageBytes]
	if xxh3.Hash(content) != image.Sums[0].Sum {
		return nil, &engine.DamagedImage{Path: image.Path}
	}
	p, err := device.Alloc(image.Info.WeightBytes)
	if err != nil {
		return nil, err
	}
	if err := l.faults.wait(ctx, l.LoadTime/imageSpeed, &l.faults.hangLoads); err != nil {
		return nil, errors.Join(err, device.Free(p))
	}
	if l.faults.take(&l.faults.failLoads) {
		return nil, errors.Join(errLoad, device.Free(p))
	}
	return &weights{loader: l, device: device, path: string(bytes.TrimRight(content, "\x00")), at: p}, nil
}

// CopyToImage implements engine.ImageLoader.
func (l *Loader) CopyToImage(ctx context.Context, from engine.Weights, memory []byte) (*engine.Image, error) {
	if err := l.faults.wait(ctx, l.LoadTime/imageSpeed, &l.faults.hangLoads); err != nil {
		return nil, err
	}
	return imageOf(from.(*weights), memory), nil
}

// imageBytes returns the bytes of host memory that hold images.
func (d *Device) imageBytes() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return int64(len(d.images)) * weightBytes
}

// restlessImages compares the images that the host cache of a node reports with its memory, and their
// pins with the parked models.
func (c *cluster) restlessImages(n *Node, report func(string, ...any)) {
	s, ok := ask[*messages.HostCacheStatus](c, n, n.pid(query.HostCache), &messages.GetHostCache{})
	if !ok {
		report("the host cache of %s does not answer", n.cfg.Name)
		return
	}
	held, allocated := n.gpus.Images().Held(), int64(0)
	for _, d := range n.devices {
		allocated += d.imageBytes()
	}
	if len(held) != len(s.GetImages()) || allocated != int64(len(held))*weightBytes ||
		s.GetUsedBytes() != uint64(allocated) || allocated > n.cfg.hostCache || len(n.gpus.Images().Ended()) > 0 {
		report("the host cache of %s reports %d images in %d bytes; %d are held in %d bytes", n.cfg.Name,
			len(s.GetImages()), s.GetUsedBytes(), len(held), allocated)
	}
	for _, i := range s.GetImages() {
		if i.GetState() != "ready" || i.GetReaders() > 0 || i.GetPinned() != c.operator.parked(i.GetRevisionDigest()) {
			report("the host cache of %s: %v", n.cfg.Name, i)
		}
	}
}

// damageImages changes a byte in each image that the host memory of a device holds.
func (d *Device) damageImages() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for m := range d.images {
		m.hostMemory[0]++
	}
}
