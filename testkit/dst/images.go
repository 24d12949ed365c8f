package dst

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/zeebo/xxh3"

	"troupe/cuda"
	"troupe/engine"
	"troupe/messages"
	"troupe/modelfile"
	"troupe/modelfile/digest"
	"troupe/node/query"
)

// An image of the simulation has the path of its model at the beginning of each part, and so has the memory of
// a device with its weights. It decides on the tokens that replicas compute. A load from an image is faster
// than one from the folder, by imageSpeed, and so are copies from the memory of a device.
const (
	imageParts = 4
	partBytes  = weightBytes / imageParts
	imageSpeed = 10
)

var _ engine.ImageLoader = (*Loader)(nil)

// partsOf returns the parts of an image without checksums.
func partsOf() (all []engine.ImageSum) {
	for i := range int64(imageParts) {
		all = append(all, engine.ImageSum{Offset: i * partBytes, Bytes: partBytes})
	}
	return all
}

// filesOf are the files of all models but for their weights.
var filesOf = sync.OnceValue(func() modelfile.Files {
	files, _, err := digest.ReadSettings(modelfile.Roots{}, tokenizerFolder)
	if err != nil {
		panic(err)
	}
	return files
})

// writeWeights fills memory with the weights of a model.
func writeWeights(path string, memory []byte) {
	clear(memory[:weightBytes])
	for _, s := range partsOf() {
		copy(memory[s.Offset:], path)
	}
}

// pathIn returns the path of the model whose weights are in memory.
func pathIn(part []byte) string { return string(part[:bytes.IndexByte(part, 0)]) }

// imageOf returns the image of weights in memory.
func imageOf(w *weights, memory []byte) *engine.Image {
	i := w.Header()
	for n, s := range i.Sums {
		i.Sums[n].Sum = xxh3.Hash(memory[s.Offset:][:s.Bytes])
	}
	return i
}

// LoadWithImage implements engine.ImageLoader.
func (l *Loader) LoadWithImage(ctx context.Context, device cuda.Device, path string, memory []byte) (engine.Weights,
	*engine.Image, error) {
	loaded, err := l.Load(ctx, device, path)
	if err != nil {
		return nil, nil, err
	}
	writeWeights(path, memory)
	return loaded, imageOf(loaded.(*weights), memory), nil
}

// LoadImage implements engine.ImageLoader.
func (l *Loader) LoadImage(ctx context.Context, device cuda.Device, image *engine.Image, memory []byte,
	from engine.ImageReader) (engine.Weights, error) {
	p, err := device.Alloc(image.Info.WeightBytes)
	if err != nil {
		return nil, err
	}
	path, err := l.bringParts(ctx, device, p, image, memory, from)
	if err == nil && l.faults.take(&l.faults.failLoads) {
		err = errLoad
	}
	if err != nil {
		return nil, errors.Join(err, device.Free(p))
	}
	return l.place(device, path, p)
}

// bringParts brings the parts of an image to a device, and returns the path of their model.
func (l *Loader) bringParts(ctx context.Context, device cuda.Device, at cuda.Ptr, image *engine.Image, memory []byte,
	from engine.ImageReader) (path string, err error) {
	if memory == nil {
		memory = make([]byte, weightBytes)
	}
	copier, direct := from.(engine.PartCopier)
	for n, s := range image.Sums {
		part, copied := memory[s.Offset:][:s.Bytes], false
		if direct {
			if copied, err = copier.CopyPart(ctx, n, device, at.Offset(s.Offset), part); err != nil {
				return "", err
			}
		}
		switch {
		case copied:
		case from != nil:
			err = from.ReadPart(ctx, n, part)
		case xxh3.Hash(part) != s.Sum:
			err = &engine.DamagedImage{Path: image.Path}
		default:
			err = l.faults.wait(ctx, l.LoadTime/imageSpeed/imageParts, &l.faults.hangLoads)
		}
		if err == nil && !copied {
			err = device.(*Device).put(at.Offset(s.Offset), part)
		}
		if err != nil {
			return "", err
		}
	}
	return pathIn(memory), nil
}

// CopyToImage implements engine.ImageLoader.
func (l *Loader) CopyToImage(ctx context.Context, from engine.Weights, memory []byte) (*engine.Image, error) {
	if err := l.faults.wait(ctx, l.LoadTime/imageSpeed, &l.faults.hangLoads); err != nil {
		return nil, err
	}
	w := from.(*weights)
	if err := w.device.(*Device).get(memory[:weightBytes], w.at); err != nil {
		return nil, err
	}
	return imageOf(w, memory), nil
}

// imageBytes returns the bytes of host memory that hold images of weights and adapters.
func (d *Device) imageBytes() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	var bytes int64
	for m := range d.images {
		bytes += int64(len(m.hostMemory))
	}
	return bytes
}

// restlessImages compares the images that the host cache of a node reports with its memory, their pins
// with the parked models, and their names with the stored adapters. No load holds one.
func (c *cluster) restlessImages(n *Node, report func(string, ...any)) {
	s, ok := ask[*messages.HostCacheStatus](c, n, n.pid(query.HostCache), &messages.GetHostCache{Adapters: true})
	if !ok {
		report("the host cache of %s does not answer", n.cfg.Name)
		return
	}
	held, allocated, expected := n.gpus.Images().Held(), int64(0), int64(0)
	for _, d := range n.devices {
		allocated += d.imageBytes()
	}
	for _, h := range held {
		expected += h.Bytes
		if len(h.Readers) > 0 || h.Adapter != nil && len(h.Names) == 0 {
			report("the host cache of %s holds an image of %s with names %v, which %v read", n.cfg.Name, h.Key, h.Names,
				h.Readers)
		}
		for _, name := range h.Names {
			at := strings.LastIndexByte(name.Adapter, '@')
			if stored := c.operator.adapter(name.Model, name.Adapter[:at]); stored.Key() != name.Adapter {
				report("the host cache of %s has adapter %s of %s, and %s is stored", n.cfg.Name, name.Adapter,
					name.Model, stored.Key())
			}
		}
	}
	if len(held) != len(s.GetImages()) || allocated != expected ||
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
