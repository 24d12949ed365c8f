package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"troupe/core/units"
	"troupe/cuda"
	"troupe/cuda/host"
	"troupe/engine"
	"troupe/engine/llama"
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
			"the folder in the page cache, over a bare buffered read pipelined likewise. `go run ./tools/bench " +
			"-only weights` measures this section.",
	}
	for _, bytes := range []int64{50 << 20, 256 << 20, 1 << 30} {
		rows, err := loadsOf(bytes)
		if err != nil {
			return s, err
		}
		s.rows = append(s.rows, rows...)
	}
	return s, nil
}

// loader loads one model.
type loader struct {
	device cuda.Device
	dir    string
	file   *os.File
	bytes  int64 // of weights on the device
	memory cuda.HostMemory
	image  *engine.Image
}

func loadsOf(bytes int64) (rows []row, err error) {
	dir, err := os.MkdirTemp("", "weights")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	l := &loader{dir: filepath.Join(dir, "model")}
	if err := models.Random("models/kjv-2m", l.dir, bytes, cuda.F32, 1); err != nil {
		return nil, err
	}
	if l.device, err = host.Open(host.Config{MemoryBytes: 3 * bytes}); err != nil {
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
		took, bare, ratio, err := paired(loadRounds, load, floor)
		rows = append(rows, row{what + ", " + size, fmt.Sprintf("%.2f times the floor (%v, floor %v)", ratio,
			took.Round(100_000), bare.Round(100_000)), fmt.Sprintf("%.2f or less", aim), yesNo(ratio <= aim)})
		return err
	}
	if err := add("parked", l.fromImage, l.bareCopies, 1.05); err != nil {
		return nil, err
	}
	if err := add("cold", l.cold(l.fromFolder), l.cold(l.bareRead(true)), 1.05); err != nil {
		return nil, err
	}
	err = add("cold, in the page cache", l.fromFolder, l.bareRead(false), 1.05)
	return rows, err
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
func (l *loader) bareRead(direct bool) func() error {
	flags := os.O_RDONLY
	if direct {
		flags |= unix.O_DIRECT
	}
	return func() error {
		f, err := os.OpenFile(l.file.Name(), flags, 0)
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

// cold removes the file from the page cache before f.
func (l *loader) cold(f func() error) func() error {
	return func() error {
		if err := errors.Join(l.file.Sync(), unix.Fadvise(int(l.file.Fd()), 0, 0, unix.FADV_DONTNEED)); err != nil {
			return err
		}
		return f()
	}
}
