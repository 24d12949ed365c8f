package residency

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"troupe/core/hostcache"
	"troupe/cuda"
	"troupe/engine"
)

// DiskImages holds images of weights in a folder on a local disk, one file for each. It survives the
// actor that decides which images it holds, and its files survive the node. An image that was found
// damaged no longer serves loads. It is safe for concurrent use.
type DiskImages struct {
	dir string

	mu      sync.Mutex
	images  map[hostcache.Key]*diskFile
	used    []hostcache.Key // by loads since TakeUsed, in order
	damaged map[hostcache.Key]string
	files   uint64 // that were added
	epoch   uint64 // of the actor that decides; writes of earlier ones are dropped
}

// diskFile is an image on disk.
type diskFile struct {
	path   string // of the file
	folder string // of the model
	bytes  int64
	fits   cuda.DType
	used   time.Time
	number uint64 // of the file; a later one has a larger number
}

// DiskImageInfo describes an image on disk.
type DiskImageInfo struct {
	Key   hostcache.Key
	Path  string // folder of the model
	Bytes int64  // of the file
	used  time.Time
}

const (
	imageSuffix   = ".image"
	partialSuffix = ".partial"
)

// OpenDiskImages opens the images in a folder, and creates the folder if it is missing. It removes files
// that are torn, or have a damaged header. The weights are verified when they are read.
func OpenDiskImages(dir string) (*DiskImages, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("folder for images of weights: %w", err)
	}
	d := &DiskImages{
		dir: dir, images: make(map[hostcache.Key]*diskFile), damaged: make(map[hostcache.Key]string),
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("folder for images of weights: %w", err)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case strings.HasSuffix(e.Name(), partialSuffix):
			err = errors.Join(err, os.Remove(path))
		case strings.HasSuffix(e.Name(), imageSuffix):
			if d.add(path) != nil {
				err = errors.Join(err, os.Remove(path))
			}
		}
	}
	return d, err
}

// add adds the image of a file.
func (d *DiskImages) add(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	image, header, err := readHeader(f)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() != fileBytes(header, image.Info.WeightBytes) {
		return errors.New("the file is torn")
	}
	key := hostcache.Key{Digest: image.Digests.Revision, Layout: image.Info.WeightLayout}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.files++
	d.images[key] = &diskFile{path, image.Path, info.Size(), image.Weights, info.ModTime(), d.files}
	return nil
}

// Held returns the images, the least recently used first, and drops what writes of earlier callers will
// report.
func (d *DiskImages) Held() (all []DiskImageInfo, epoch uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.epoch++
	for key, i := range d.images {
		all = append(all, DiskImageInfo{key, i.folder, i.bytes, i.used})
	}
	slices.SortFunc(all, func(a, b DiskImageInfo) int {
		return cmp.Or(a.used.Compare(b.used), cmp.Compare(a.Key.Digest, b.Key.Digest),
			cmp.Compare(a.Key.Layout, b.Key.Layout))
	})
	return all, d.epoch
}

// TakeUsed returns the images that loads have used since the last call, and those found damaged, with the
// reason.
func (d *DiskImages) TakeUsed() (used []hostcache.Key, damaged map[hostcache.Key]string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	used, d.used = d.used, nil
	damaged, d.damaged = d.damaged, make(map[hostcache.Key]string)
	return used, damaged
}

// Touch notes the use of an image at a time, which is kept with its file.
func (d *DiskImages) Touch(key hostcache.Key, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := d.images[key]; i != nil {
		i.used = now
		_ = os.Chtimes(i.path, now, now) // else a restart finds an older use
	}
}

// Remove removes an image. The caller runs release, which deletes the file and may take a while; it is
// nil if there is none. Loads that have opened the image go on.
func (d *DiskImages) Remove(key hostcache.Key) (release func() error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := d.images[key]
	if i == nil {
		return nil
	}
	delete(d.images, key)
	gone := i.path + partialSuffix // a new image of the key may take the name
	if err := os.Rename(i.path, gone); err != nil {
		gone = i.path
	}
	return func() error {
		if err := os.Remove(gone); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
}

// find returns the file of an image that is the first to fit; "" if there is none.
func (d *DiskImages) find(fits func(hostcache.Key, *diskFile) bool) (key hostcache.Key, path string) {
	if d == nil {
		return key, ""
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var last time.Time
	for k, i := range d.images {
		if fits(k, i) && (path == "" || i.used.After(last)) {
			key, path, last = k, i.path, i.used
		}
	}
	return key, path
}

// Find returns the image of a revision that fits a device, without its weights, or nil. It reads the
// disk.
func (d *DiskImages) Find(revision string, on cuda.Info) *engine.Image {
	if d == nil || revision == "" {
		return nil
	}
	return d.read(func(k hostcache.Key, i *diskFile) bool { return k.Digest == revision && i.fits == on.Weights })
}

// Has reports whether there is an image of a revision that fits a device. It does not read the disk.
func (d *DiskImages) Has(revision string, on cuda.Info) bool {
	_, path := d.find(func(k hostcache.Key, i *diskFile) bool { return k.Digest == revision && i.fits == on.Weights })
	return path != "" && revision != ""
}

// FindFolder returns the image that was used last of those loaded from a folder, if it fits a device, or
// nil. It reads the disk.
func (d *DiskImages) FindFolder(path string, on cuda.Info) *engine.Image {
	return d.read(func(_ hostcache.Key, i *diskFile) bool { return i.folder == path && i.fits == on.Weights })
}

func (d *DiskImages) read(fits func(hostcache.Key, *diskFile) bool) *engine.Image {
	key, path := d.find(fits)
	if path == "" {
		return nil
	}
	i, err := d.open(key, path)
	if err != nil {
		return nil
	}
	i.Close()
	return i.image
}

// Open opens the image of a revision that fits a device, for a load; nil if there is none.
func (d *DiskImages) Open(revision string, on cuda.Info) *DiskImage {
	if d == nil || revision == "" {
		return nil
	}
	key, path := d.find(func(k hostcache.Key, i *diskFile) bool {
		return k.Digest == revision && i.fits == on.Weights
	})
	if path == "" {
		return nil
	}
	i, err := d.open(key, path)
	if err != nil {
		d.drop(key, path, err.Error())
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.used = append(d.used, key)
	if f := d.images[key]; f != nil && f.path == path {
		i.number = f.number
	}
	return i
}

// drop ends the use of a file that is damaged.
func (d *DiskImages) drop(key hostcache.Key, path, why string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := d.images[key]; i != nil && i.path == path {
		delete(d.images, key)
		d.damaged[key] = why
		_ = os.Remove(path) // a start would find the damage again
	}
}
