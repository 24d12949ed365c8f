package residency

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/zeebo/xxh3"
	"golang.org/x/sys/unix"

	"troupe/core/hostcache"
	"troupe/engine"
	"troupe/engine/directio"
)

// DiskImage is an image on disk that a load reads. The file is read past the page cache, where that is
// possible, unless it is there.
type DiskImage struct {
	of     *DiskImages
	key    hostcache.Key
	path   string
	number uint64 // of the file
	image  *engine.Image
	begin  int64 // of the weights
	plain  *os.File
	direct *os.File // nil: not possible, or the file is in the page cache
}

// fileBytes returns the size of an image's file. Its weights begin and end at a page.
func fileBytes(header, weights int64) int64 { return toPages(header) + toPages(weights) }

func toPages(n int64) int64 {
	return (n + directio.PageBytes - 1) / directio.PageBytes * directio.PageBytes
}

// readHeader reads the header of a file, and returns its length.
func readHeader(f *os.File) (*engine.Image, int64, error) {
	prefix := make([]byte, prefixBytes)
	if _, err := f.ReadAt(prefix, 0); err != nil {
		return nil, 0, err
	}
	n, err := headerLength(prefix)
	if err != nil {
		return nil, 0, err
	}
	if info, err := f.Stat(); err != nil || info.Size() < int64(n) {
		return nil, 0, errors.Join(errHeader, err)
	}
	b := make([]byte, n)
	if _, err := f.ReadAt(b, 0); err != nil {
		return nil, 0, err
	}
	image, err := DecodeHeader(b)
	return image, int64(n), err
}

func (d *DiskImages) open(key hostcache.Key, path string) (*DiskImage, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	image, n, err := readHeader(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	i := &DiskImage{of: d, key: key, path: path, image: image, begin: toPages(n), plain: f}
	if !directio.Cached(f) {
		if i.direct, err = os.OpenFile(path, os.O_RDONLY|unix.O_DIRECT, 0); err != nil {
			i.direct = nil // the file system cannot do it
		}
	}
	return i, nil
}

// Image returns the image without its weights.
func (i *DiskImage) Image() *engine.Image { return i.image }

// Read reads a part of the weights, without verifying it.
func (i *DiskImage) Read(part int, into []byte) error {
	at := i.begin + i.image.Sums[part].Offset
	if i.direct != nil && directio.Aligned(into, at) {
		if _, err := i.direct.ReadAt(into, at); err == nil || !errors.Is(err, unix.EINVAL) {
			return err
		}
	}
	_, err := i.plain.ReadAt(into, at)
	return err
}

// ReadPart implements engine.ImageReader. An image with a damaged part serves no other load.
func (i *DiskImage) ReadPart(_ context.Context, part int, into []byte) error {
	err := i.Read(part, into)
	if s := i.image.Sums[part]; err == nil && xxh3.Hash(into) != s.Sum {
		err = &engine.DamagedImage{Path: i.image.Path, Offset: s.Offset}
	}
	if err != nil {
		i.of.drop(i.key, i.path, err.Error())
	}
	return err
}

// Drop ends the use of the image by other loads.
func (i *DiskImage) Drop(why string) { i.of.drop(i.key, i.path, why) }

// Version tells the file from one that replaces it.
func (i *DiskImage) Version() string { return fmt.Sprint(i.number) }

// Close closes the files.
func (i *DiskImage) Close() error {
	if i.direct != nil {
		i.direct.Close()
	}
	return i.plain.Close()
}

// FileBytes returns the size of the file of an image.
func FileBytes(i *engine.Image) (int64, error) {
	header, err := EncodeHeader(i)
	return fileBytes(int64(len(header)), i.Info.WeightBytes), err
}

// AnyEpoch is the epoch of a write whose outcome an actor learns even if it restarts meanwhile.
const AnyEpoch = 0

// Write writes an image whose weights are in memory. The file gets its name once it is complete and on
// the disk. An image of an earlier epoch, which no actor knows, is dropped.
func (d *DiskImages) Write(ctx context.Context, epoch uint64, i *engine.Image, memory []byte) error {
	return d.write(ctx, epoch, i, func(part int) ([]byte, error) {
		s := i.Sums[part]
		return memory[s.Offset:][:s.Bytes], nil
	})
}

// WriteParts is like Write, with weights that a reader brings part by part and verifies.
func (d *DiskImages) WriteParts(ctx context.Context, epoch uint64, i *engine.Image, from engine.ImageReader) error {
	buffer := make([]byte, min(engine.ImagePartBytes, i.Info.WeightBytes))
	return d.write(ctx, epoch, i, func(part int) ([]byte, error) {
		b := buffer[:i.Sums[part].Bytes]
		return b, from.ReadPart(ctx, part, b)
	})
}

func (d *DiskImages) write(ctx context.Context, epoch uint64, i *engine.Image, content func(part int) ([]byte, error),
) (err error) {
	header, err := EncodeHeader(i)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(d.dir, "*"+partialSuffix)
	if err != nil {
		return err
	}
	defer func() {
		f.Close()
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	size := fileBytes(int64(len(header)), i.Info.WeightBytes)
	if err := unix.Fallocate(int(f.Fd()), 0, 0, size); err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("%d bytes in %s: %w", size, d.dir, err)
	}
	if err := errors.Join(f.Truncate(size), writeAt(f, header, 0)); err != nil {
		return err
	}
	begin := toPages(int64(len(header)))
	for part, s := range i.Sums {
		b, err := content(part)
		if err == nil {
			err = errors.Join(ctx.Err(), writeAt(f, b, begin+s.Offset))
		}
		if err != nil {
			return err
		}
	}
	if err := f.Sync(); err != nil {
		return err
	}
	_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) // the page cache is for what has no image
	return d.publish(ctx, epoch, i, f, size)
}

func writeAt(f *os.File, b []byte, at int64) error {
	n, err := f.WriteAt(b, at)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	return err
}

// publish gives a complete file its name.
func (d *DiskImages) publish(ctx context.Context, epoch uint64, i *engine.Image, f *os.File, size int64) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if epoch != AnyEpoch && epoch != d.epoch || ctx.Err() != nil {
		return errors.New("the actor that wanted the image has restarted")
	}
	key := hostcache.Key{Digest: i.Digests.Revision, Layout: i.Info.WeightLayout}
	path := fmt.Sprintf("%s/%s-%016x%s", d.dir, key.Digest, xxh3.HashString(key.Layout), imageSuffix)
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	if folder, err := os.Open(d.dir); err == nil {
		_ = folder.Sync() // else a crash of the machine may lose the file
		folder.Close()
	}
	d.files++
	d.images[key] = &diskFile{path, i.Path, size, i.Weights, info.ModTime(), d.files}
	return nil
}
