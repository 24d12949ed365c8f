package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"troupe/core/units"
	"troupe/cuda"
	"troupe/cuda/host"
	"troupe/engine"
	"troupe/engine/llama"
	"troupe/engine/residency"
	"troupe/testkit/models"
)

const (
	loadRounds = 7
	loadChunk  = 4 << 20
)

// weightLoads measures loads of weights from the host cache and from disk, over bare copies of the same
// bytes.
func weightLoads() (section, error) {
	s := section{
		title: "Loads of weights",
		how: "Models with random weights (F32, as the software device needs them), generated for this section. " +
			"Parked: a load from an image in the host cache, which verifies and copies it, over bare copies of the " +
			"same bytes from the same memory, both to memory of the device that is allocated for it. Cold: a load " +
			"from a folder that is not in the page cache, with its digest and the image that it leaves behind, over " +
			"a bare read of the file with O_DIRECT pipelined with copies to the device. The second cold row has " +
			"the folder in the page cache, over a bare buffered read pipelined likewise. Image on disk: a load " +
			"from an image that is not in the page cache, into host memory and onto the device, over a bare read " +
			"like that of a cold load. Image of another node: a load from the host cache of a second actor of this " +
			"process over its data plane and loopback, past host memory, over the same bytes through a bare TCP " +
			"connection to the device. Another device: a load from the memory of a second software device of the " +
			"node, with no other source, over bare copies between the two, without checksums. Device of another " +
			"node: as that of an image, from device memory there. `go run ./tools/bench " +
			"-only weights` measures this section.",
	}
	for _, bytes := range loadSizes {
		rows, err := loadsOf(bytes, nil)
		if err != nil {
			return s, err
		}
		s.rows = append(s.rows, rows...)
	}
	return s, nil
}

// loadSizes are the sizes of the models.
var loadSizes = []int64{50 << 20, 256 << 20, 1 << 30}

// loader loads one model.
type loader struct {
	device cuda.Device
	dir    string
	file   *os.File
	bytes  int64 // of weights on the device
	memory cuda.HostMemory
	image  *engine.Image
	images *residency.DiskImages
	stored *os.File // of the image on disk
}

// loadsOf measures the loads of a model, or only those from the given sources.
func loadsOf(bytes int64, sources []string) (rows []row, err error) {
	dir, err := os.MkdirTemp("", "weights")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	l := &loader{dir: filepath.Join(dir, "model")}
	if err := models.Random("models/kjv-2m", l.dir, bytes, cuda.F32, 1); err != nil {
		return nil, err
	}
	if l.device, err = host.Open(host.Config{MemoryBytes: 4 * bytes}); err != nil {
		return nil, err
	}
	defer l.device.Close()
	if l.file, err = os.OpenFile(filepath.Join(l.dir, "model.safetensors"), os.O_RDWR, 0); err != nil {
		return nil, err
	}
	defer l.file.Close()
	info, err := (llama.Loader{}).Inspect(l.dir, l.device.Info())
	if err != nil {
		return nil, err
	}
	l.bytes = info.WeightBytes
	if l.memory, err = l.device.AllocHost(l.bytes); err != nil {
		return nil, err
	}
	if err := l.fromFolder(); err != nil {
		return nil, err
	}
	size := units.FormatBytes(bytes)
	add := func(what string, load, floor func() error, aim float64) error {
		if sources != nil && !slices.Contains(sources, what) {
			return nil
		}
		took, bare, ratio, err := paired(loadRounds, load, floor)
		rows = append(rows, row{what + ", " + size, fmt.Sprintf("%.2f times the floor (%v, floor %v)", ratio,
			took.Round(100_000), bare.Round(100_000)), fmt.Sprintf("%.2f or less", aim), yesNo(ratio <= aim)})
		return err
	}
	if err := add("parked", l.fromImage, l.bareCopies, 1.05); err != nil {
		return nil, err
	}
	if err := add("cold", cold(l.file, l.fromFolder), cold(l.file, l.bareRead(l.file, true)), 1.05); err != nil {
		return nil, err
	}
	if err := add("cold, in the page cache", l.fromFolder, l.bareRead(l.file, false), 1.05); err != nil {
		return nil, err
	}
	if err := errors.Join(l.fromFolder(), l.store(dir)); err != nil { // bare reads have overwritten the memory
		return nil, err
	}
	defer l.stored.Close()
	err = add("image on disk", cold(l.stored, l.fromDisk), cold(l.stored, l.bareRead(l.stored, true)), 1.05)
	if err != nil {
		return nil, err
	}
	if err := l.fromDisk(); err != nil {
		return nil, err
	}
	n, err := newNodeLoad(l)
	if err != nil {
		return nil, err
	}
	defer n.close()
	if err := add("image of another node", n.load, n.bare, 1.05); err != nil {
		return nil, err
	}
	return rows, l.peers(add)
}

// peers adds the loads from the memory of another device.
func (l *loader) peers(add func(what string, load, floor func() error, aim float64) error) error {
	p, err := newPeerLoad(l)
	if err != nil {
		return err
	}
	if err := add("another device", p.load, p.bare, 1.05); err != nil {
		return err
	}
	n, err := p.nodes()
	if err != nil {
		return err
	}
	defer n.close()
	return errors.Join(add("device of another node", n.load, n.bare, 1.05), p.close())
}

// fromImage loads the image.
func (l *loader) fromImage() error {
	w, err := (llama.Loader{}).LoadImage(context.Background(), l.device, l.image, l.memory.Bytes(), nil)
	if err != nil {
		return err
	}
	return w.Free()
}

// fromFolder loads the folder, and fills the image.
func (l *loader) fromFolder() error {
	w, image, err := (llama.Loader{}).LoadWithImage(context.Background(), l.device, l.dir, l.memory.Bytes())
	if err != nil {
		return err
	}
	l.image = image
	return w.Free()
}

// toDevice calls f with new memory of the device and a stream.
func (l *loader) toDevice(f func(to cuda.Ptr, s cuda.Stream) error) error {
	to, err := l.device.Alloc(l.bytes)
	if err != nil {
		return err
	}
	s, err := l.device.NewStream("bare")
	if err != nil {
		return err
	}
	err = errors.Join(f(to, s), s.Sync(), s.Close())
	return errors.Join(err, l.device.Free(to))
}

// bareCopies copies the memory of the image to the device.
func (l *loader) bareCopies() error {
	return l.toDevice(func(to cuda.Ptr, s cuda.Stream) error {
		b := l.memory.Bytes()
		for at := int64(0); at < l.bytes; at += loadChunk {
			n := min(loadChunk, l.bytes-at)
			if err := s.CopyIn(to.Offset(at), b[at:][:n]); err != nil {
				return err
			}
		}
		return nil
	})
}

// bareRead reads the file into the memory of the image, while what was read is copied to the device.
func (l *loader) bareRead(file *os.File, direct bool) func() error {
	flags := os.O_RDONLY
	if direct {
		flags |= unix.O_DIRECT
	}
	return func() error {
		f, err := os.OpenFile(file.Name(), flags, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		return l.toDevice(func(to cuda.Ptr, s cuda.Stream) error {
			b := l.memory.Bytes()
			for at := int64(0); at+loadChunk <= l.bytes; at += loadChunk {
				if _, err := io.ReadFull(f, b[at:][:loadChunk]); err != nil {
					return err
				}
				if err := s.CopyIn(to.Offset(at), b[at:][:loadChunk]); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// cold removes a file from the page cache before f.
func cold(file *os.File, f func() error) func() error {
	return func() error {
		if err := errors.Join(file.Sync(), unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED)); err != nil {
			return err
		}
		return f()
	}
}

// store writes the image to a folder.
func (l *loader) store(dir string) (err error) {
	if l.images, err = residency.OpenDiskImages(filepath.Join(dir, "images")); err != nil {
		return err
	}
	_, epoch := l.images.Held()
	if err := l.images.Write(context.Background(), epoch, l.image, l.memory.Bytes()); err != nil {
		return err
	}
	found, err := filepath.Glob(filepath.Join(dir, "images", "*.image"))
	if err != nil || len(found) != 1 {
		return fmt.Errorf("%d images: %w", len(found), err)
	}
	l.stored, err = os.OpenFile(found[0], os.O_RDWR, 0)
	return err
}

// fromDisk loads the image on disk, into host memory and onto the device.
func (l *loader) fromDisk() error {
	i := l.images.Open(l.image.Digests.Revision, l.device.Info())
	if i == nil {
		return errors.New("the image on disk is gone")
	}
	defer i.Close()
	w, err := (llama.Loader{}).LoadImage(context.Background(), l.device, i.Image(), l.memory.Bytes(), i)
	if err != nil {
		return err
	}
	return w.Free()
}
