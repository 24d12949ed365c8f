package llama

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"troupe/engine"
	"troupe/modelfile"
	"troupe/modelfile/digest"
	"troupe/modelfile/safetensors"
)

// weightReader reads each weights file of a model once, from the first byte to the last, and
// computes its digest meanwhile. It also reads the bytes that no tensor needs.
type weightReader struct {
	ctx   context.Context
	roots modelfile.Roots
	cache *digest.Cache
	files []digest.File           // read to their end
	read  map[string]digest.Stamp // by path

	ahead  *readAhead
	file   *os.File // nil: no file is open
	path   string
	stamp  digest.Stamp
	began  time.Time
	cached *digest.Content // content of the file when it was read before; nil: it was not
	at     int64
	buffer []byte
}

// byFileOffset orders tensors by file and offset.
func byFileOffset(a, b placedTensor) int {
	p, q := a.source.Place(), b.source.Place()
	return cmp.Or(cmp.Compare(p.File, q.File), cmp.Compare(p.Begin, q.Begin))
}

// seek moves to a tensor, which must be after the bytes already read.
func (s *weightReader) seek(to safetensors.Place) error {
	if s.file == nil || s.path != to.File {
		if err := s.finish(); err != nil {
			return err
		}
		if err := s.open(to); err != nil {
			return err
		}
	}
	return s.skipTo(to.Begin)
}

func (s *weightReader) open(p safetensors.Place) error {
	f, err := s.roots.Open(p.File)
	if err != nil {
		return err
	}
	s.file, s.path, s.stamp, s.began, s.at, s.cached = f, p.File, p.Stamp, time.Now(), 0, nil
	if err := s.checkUnchanged(); err != nil {
		s.closeFile()
		return err
	}
	if content, ok := s.cache.Find(s.path, s.stamp); ok {
		s.cached = &content
	}
	s.ahead.begin(f, s.stamp.Size, s.cached != nil)
	return nil
}

// checkUnchanged returns an error if the open file is not the one whose header was inspected.
func (s *weightReader) checkUnchanged() error {
	info, err := s.file.Stat()
	if err == nil && digest.StampOf(info) != s.stamp {
		err = digest.Changed(s.path)
	}
	return err
}

// Read implements io.Reader.
func (s *weightReader) Read(b []byte) (int, error) {
	n, err := s.ahead.Read(b)
	s.at += int64(n)
	return n, err
}

// skipTo reads the bytes up to an offset without storing them: the header, and tensors that the
// model does not use.
func (s *weightReader) skipTo(to int64) error {
	if s.buffer == nil {
		s.buffer = make([]byte, 1<<20)
	}
	for s.at < to {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		if _, err := io.ReadFull(s, s.buffer[:min(int64(len(s.buffer)), to-s.at)]); err != nil {
			return err
		}
	}
	return nil
}

// readRest reads the files that contain no tensor of the model, and checks that no file has changed
// since it was read.
func (s *weightReader) readRest(paths []string) error {
	for _, path := range paths {
		if _, read := s.read[path]; read {
			continue
		}
		info, err := s.roots.Stat(path)
		if err != nil {
			return err
		}
		if err := s.open(safetensors.Place{File: path, Stamp: digest.StampOf(info)}); err != nil {
			return err
		}
		if err := s.finish(); err != nil {
			return err
		}
	}
	for path, stamp := range s.read { // files may change while others are read
		if info, err := s.roots.Stat(path); err != nil || digest.StampOf(info) != stamp {
			return digest.Changed(path)
		}
	}
	return nil
}

// closeFile closes the open file, if any.
func (s *weightReader) closeFile() {
	if s.file != nil {
		s.ahead.close()
		s.file.Close()
		s.file = nil
	}
}

// finish reads the open file to its end and records its digest.
func (s *weightReader) finish() error {
	if s.file == nil {
		return nil
	}
	defer s.closeFile()
	if err := s.skipTo(s.stamp.Size); err != nil {
		return err
	}
	if err := s.checkUnchanged(); err != nil {
		return err
	}
	content := s.ahead.content()
	switch {
	case s.cached == nil:
		s.cache.Put(s.path, s.stamp, content, s.began)
	case s.cached.Check != content.Check:
		s.cache.Forget(s.path)
		return fmt.Errorf("%s: content changed although size and times did not; check the disk, "+
			"then load the model again", s.path)
	default:
		content = *s.cached
	}
	if s.read == nil {
		s.read = make(map[string]digest.Stamp)
	}
	s.read[s.path] = s.stamp
	s.files = append(s.files, digest.File{Name: filepath.Base(s.path), Size: s.stamp.Size, Sum: content.Sum})
	return nil
}

// CachedDigests implements engine.DigestCache.
func (f Loader) CachedDigests(path string) (d engine.Digests, changed bool) {
	paths, err := safetensors.Files(f.Roots, path)
	if err != nil {
		return d, false
	}
	var files []digest.File
	for _, p := range paths {
		info, err := f.Roots.Stat(p)
		if err != nil {
			return d, false
		}
		if f.Digests.Changed(p, digest.StampOf(info)) {
			return d, true
		}
		if content, ok := f.Digests.Find(p, digest.StampOf(info)); ok {
			files = append(files, digest.File{Name: filepath.Base(p), Size: info.Size(), Sum: content.Sum})
		}
	}
	settings, err := digest.Settings(f.Roots, path, f.Digests)
	if err != nil || len(files) < len(paths) {
		return d, false
	}
	weights := digest.Weights(files)
	return engine.Digests{Weights: weights.String(), Revision: digest.Revision(weights, settings).String()}, false
}
