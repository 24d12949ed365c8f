package llama

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/zeebo/xxh3"

	"troupe/cuda"
	"troupe/engine"
	"troupe/modelfile/digest"
)

var _ engine.FolderLoader = Loader{}

// folderParts reads the parts of an image from the folder of the model. The checksums of the image verify
// the content.
type folderParts struct {
	Loader
	image   *engine.Image
	tensors []placedTensor // by offset

	mu    sync.Mutex
	files map[string]*os.File
}

// OpenParts implements engine.FolderLoader.
func (f Loader) OpenParts(path string, image *engine.Image, device cuda.Info) (engine.PartsFile, error) {
	m, err := inspect(f.Roots, path, device)
	if err != nil {
		return nil, err
	}
	if m.info.WeightBytes != image.Info.WeightBytes || m.info.WeightLayout != image.Info.WeightLayout {
		return nil, fmt.Errorf("%s has another model than its image", path)
	}
	return &folderParts{Loader: f, image: image, tensors: m.tensors, files: make(map[string]*os.File)}, nil
}

// ReadPart implements engine.ImageReader.
func (f *folderParts) ReadPart(ctx context.Context, part int, into []byte) error {
	s := f.image.Sums[part]
	clear(into)
	for _, t := range f.tensors {
		begin, end := max(t.offset, s.Offset), min(t.offset+t.bytes(), s.Offset+s.Bytes)
		if begin >= end {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f.read(t, begin-t.offset, into[begin-s.Offset:end-s.Offset]); err != nil {
			return fmt.Errorf("tensor %s: %w", t.name, err)
		}
	}
	if xxh3.Hash(into) != s.Sum {
		return fmt.Errorf("%s has other weights than revision %s", f.image.Path, f.image.Digests.Revision)
	}
	return nil
}

// read reads and converts the bytes of a tensor from an offset. Parts begin and end between elements.
func (f *folderParts) read(t placedTensor, from int64, out []byte) error {
	file, err := f.open(t)
	if err != nil {
		return err
	}
	place, size := t.source.Place(), t.dtype.Bytes()
	at := place.Begin + from/size*t.source.DType.Bytes()
	if t.dtype == t.source.DType {
		_, err := file.ReadAt(out, at)
		return err
	}
	raw := make([]byte, int64(len(out))/size*t.source.DType.Bytes())
	if _, err := file.ReadAt(raw, at); err != nil {
		return err
	}
	return convert(out, t.dtype, raw, t.source.DType)
}

// open returns the file of a tensor, which must be the one that was inspected.
func (f *folderParts) open(t placedTensor) (*os.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := t.source.Place()
	if file := f.files[p.File]; file != nil {
		return file, nil
	}
	file, err := f.Roots.Open(p.File)
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err != nil || digest.StampOf(info) != p.Stamp {
		return nil, errors.Join(digest.Changed(p.File), err, file.Close())
	}
	f.files[p.File] = file
	return file, nil
}

// Close closes the files.
func (f *folderParts) Close() (err error) {
	for _, file := range f.files {
		err = errors.Join(err, file.Close())
	}
	return err
}
