package modelfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// maxEntries is the maximum number of files in a folder.
const maxEntries = 10000

// Roots are the folders from which models and adapters may be read, after links are resolved. The
// zero value allows every folder.
type Roots struct {
	dirs   []string
	memory *memory // nil: the files are on disk
}

// ErrOutside is returned for a path that is not below a root, whether or not the file exists.
var ErrOutside = errors.New("not below a folder of --model-roots")

// NewRoots resolves the links of the folders. Without folders it allows every folder.
func NewRoots(dirs ...string) (Roots, error) {
	var r Roots
	for _, dir := range dirs {
		abs, err := filepath.Abs(dir)
		if err == nil {
			abs, err = filepath.EvalSymlinks(abs)
		}
		if err != nil {
			return Roots{}, fmt.Errorf("model root %s: %w", dir, err)
		}
		if info, err := os.Stat(abs); err != nil || !info.IsDir() {
			return Roots{}, fmt.Errorf("model root %s: not a folder", dir)
		}
		r.dirs = append(r.dirs, abs)
	}
	return r, nil
}

// Check returns an error if a folder, or a file in it, is not below a root. Open checks each file
// again.
func (r Roots) Check(dir string) error {
	if r.dirs == nil {
		return nil
	}
	d, err := open(dir, unix.O_DIRECTORY)
	if err != nil {
		return r.hideError(dir, err)
	}
	defer d.Close()
	if err := r.checkBelow(d, dir); err != nil {
		return err
	}
	names, err := d.ReadDir(maxEntries + 1)
	if err != nil && len(names) == 0 {
		return nil // an empty folder: its reader reports what is missing
	}
	if len(names) > maxEntries {
		return fmt.Errorf("%s: the folder has more than %d files, so it is not a model", dir, maxEntries)
	}
	for _, entry := range names {
		if entry.Type() != fs.ModeSymlink {
			continue
		}
		path := filepath.Join(dir, entry.Name())
		if real, err := filepath.EvalSymlinks(path); err != nil || !r.contains(real) {
			return outside(path)
		}
	}
	return nil
}

// CheckFolder returns an error if a path is not a folder or must not be read.
func (r Roots) CheckFolder(path string) error {
	d, err := open(path, unix.O_DIRECTORY)
	if err != nil {
		return r.hideError(path, err)
	}
	defer d.Close()
	return r.checkBelow(d, path)
}

// checkBelow checks the path that the kernel reports for an opened file.
func (r Roots) checkBelow(f *os.File, path string) error {
	if r.dirs == nil {
		return nil
	}
	real, err := os.Readlink(procPath(f))
	if err != nil {
		return fmt.Errorf("%s: cannot resolve its path, which --model-roots needs: %w", path, err)
	}
	if !r.contains(real) {
		return outside(path)
	}
	return nil
}

// contains reports whether a resolved path is below a root.
func (r Roots) contains(path string) bool {
	for _, dir := range r.dirs {
		if path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/") {
			return true
		}
	}
	return false
}

// hideError replaces the error of a file that cannot be opened, unless it is below a root: errors
// must not disclose which files exist elsewhere.
func (r Roots) hideError(path string, err error) error {
	if r.dirs == nil {
		return err
	}
	abs, absErr := filepath.Abs(path)
	if absErr != nil {
		return outside(path)
	}
	for dir := filepath.Clean(abs); ; dir = filepath.Dir(dir) { // up to the deepest existing folder
		if real, evalErr := filepath.EvalSymlinks(dir); evalErr == nil {
			if r.contains(real) {
				return err
			}
			return outside(path)
		} else if info, lstatErr := os.Lstat(dir); dir == "/" || lstatErr == nil && info.Mode()&fs.ModeSymlink != 0 {
			return outside(path) // or a dangling link
		}
	}
}

func outside(path string) error { return fmt.Errorf("%s: %w", path, ErrOutside) }

// Files returns the paths of the readable regular files of a folder, sorted.
func (r Roots) Files(dir string) []string {
	d, err := open(dir, unix.O_DIRECTORY)
	if err != nil {
		return nil
	}
	defer d.Close()
	entries, _ := d.ReadDir(maxEntries) // partial on error
	var all []string
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		if _, err := r.Stat(path); err == nil {
			all = append(all, path)
		}
	}
	slices.Sort(all)
	return all
}
