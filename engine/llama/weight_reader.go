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

// source reads the files of a model's weights, each of them once from its first byte to its last, and finds
// out on the way what content they have. What no tensor needs is read too.
type weightReader struct {
	ctx    context.Context
	roots  modelfile.Roots
	cache  *digest.Cache
	hasher *digest.Hasher
	files  []digest.File           // that were read to their end
	read   map[string]digest.Stamp // by path

	file   *os.File // nil: none is open
	path   string
	stamp  digest.Stamp
	began  time.Time
	cached *digest.Content // of the file, as it was read before; nil: it was not
	at     int64
	buffer []byte
}

// byFileOffset orders tensors as their files have them.
func byFileOffset(a, b placedTensor) int {
	p, q := a.source.Place(), b.source.Place()
	return cmp.Or(cmp.Compare(p.File, q.File), cmp.Compare(p.Begin, q.Begin))
}

// seek makes Read begin at a tensor, which is behind what was read.
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
	s.hasher.Begin(s.cached != nil)
	return nil
}

// checkUnchanged reports an error where the open file is not the one whose header was inspected.
func (s *weightReader) checkUnchanged() error {
	info, err := s.file.Stat()
	if err == nil && digest.StampOf(info) != s.stamp {
		err = digest.Changed(s.path)
	}
	return err
}

// Read implements io.Reader.
func (s *weightReader) Read(b []byte) (int, error) {
	n, err := s.file.Read(b)
	_, _ = s.hasher.Write(b[:n]) // never fails
	s.at += int64(n)
	return n, err
}

// pass reads up to an offset what no tensor needs: the header, and tensors that the model does not use.
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

// rest reads the files that no tensor was taken from, and checks that none has changed since it was read.
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
	for path, stamp := range s.read { // while others were read
		if info, err := s.roots.Stat(path); err != nil || digest.StampOf(info) != stamp {
			return digest.Changed(path)
		}
	}
	return nil
}

// abort closes the open file, if there is one.
func (s *weightReader) closeFile() {
	if s.file != nil {
		s.file.Close()
		s.file = nil
	}
}

// close reads the open file to its end, and notes its content.
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
	content := s.hasher.End()
	switch {
	case s.cached == nil:
		s.cache.Put(s.path, s.stamp, content, s.began)
	case s.cached.Check != content.Check:
		s.cache.Forget(s.path)
		return fmt.Errorf("%s: its content is not what it was, though its size and times are; look at the disk, "+
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

// CachedDigests implements engine.Identifier.
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
