package troupe

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"troupe/engine/modelfile"
)

// weights names models by the content of their files: KV blocks that were computed from others are of no use, and the same files are the same
// weights on every node. Files are read once, until they change.
type weights struct {
	mu    sync.Mutex
	known map[string]string // files as the file system shows them -> SHA-256
}

// files are the plain files of a folder, and how the file system shows them: other files look otherwise.
func files(roots modelfile.Roots, folder string) (plain []string, seen string) {
	seen = folder
	for _, f := range roots.Files(folder) {
		if info, err := roots.Stat(f); err == nil {
			plain = append(plain, f)
			seen += fmt.Sprintf("\x00%s %d %d", filepath.Base(f), info.Size(), info.ModTime().UnixNano())
		}
	}
	return plain, seen
}

// digest is the name of the model in a folder as it was when it looked like seen. It reads all of its files, at the speed of the disk, and
// fails where they have changed since then: what was loaded is not known any more.
func (w *weights) digest(ctx context.Context, roots modelfile.Roots, folder, seen string) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if sum, ok := w.known[seen]; ok {
		return sum, nil
	}
	all := sha256.New()
	plain, _ := files(roots, folder)
	for _, f := range plain {
		sum, err := digestFile(ctx, roots, f)
		if err != nil {
			return "", fmt.Errorf("model %s: %w", folder, err)
		}
		fmt.Fprintf(all, "%s\x00%x", filepath.Base(f), sum)
	}
	if _, now := files(roots, folder); now != seen {
		return "", fmt.Errorf("model %s: its files were changed while it was loaded; restart the replica", folder)
	}
	if w.known == nil {
		w.known = make(map[string]string)
	}
	w.known[seen] = fmt.Sprintf("%x", all.Sum(nil))
	return w.known[seen], nil
}

func digestFile(ctx context.Context, roots modelfile.Roots, path string) ([]byte, error) {
	f, err := roots.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.CopyBuffer(sum, reading{ctx, f}, make([]byte, 1<<20)); err != nil {
		return nil, err
	}
	return sum.Sum(nil), nil
}

// reading is a file that ends with a context.
type reading struct {
	ctx  context.Context
	file *os.File
}

func (r reading) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.file.Read(b)
}
