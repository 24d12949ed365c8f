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

// maxEntries is how many files a folder may have.
const maxEntries = 10000

// Roots are the folders that models and adapters may be read from, after links are resolved. The zero value allows every
// folder.
type Roots struct{ dirs []string }

// ErrOutside is returned for a file that is not below a root, whether there is such a file or not.
var ErrOutside = errors.New("not below a folder of --model-roots")

// NewRoots resolves the links of the folders. Without a folder, every folder is allowed.
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

// Check reports an error where a folder, or a file in it, is not below a root. Open checks each file again.
func (r Roots) Check(dir string) error {
	if r.dirs == nil {
		return nil
	}
	d, err := open(dir, unix.O_DIRECTORY)
	if err != nil {
		return r.hide(dir, err)
	}
	defer d.Close()
	if err := r.below(d, dir); err != nil {
		return err
	}
	names, err := d.ReadDir(maxEntries + 1)
	if err != nil && len(names) == 0 {
		return nil // an empty folder: its reader says what is missing
	}
	if len(names) > maxEntries {
		return fmt.Errorf("%s: more than %d files are in this folder, so it is no model's", dir, maxEntries)
	}
	for _, entry := range names {
		if entry.Type() != fs.ModeSymlink {
			continue
		}
		path := filepath.Join(dir, entry.Name())
		if real, err := filepath.EvalSymlinks(path); err != nil || !r.has(real) {
			return outside(path)
		}
	}
	return nil
}

// Folder reports an error where a path is no folder, or may not be read.
func (r Roots) Folder(path string) error {
	d, err := open(path, unix.O_DIRECTORY)
	if err != nil {
		return r.hide(path, err)
	}
	defer d.Close()
	return r.below(d, path)
}

// below checks where an opened file is, as the kernel tells.
func (r Roots) below(f *os.File, path string) error {
	if r.dirs == nil {
		return nil
	}
	real, err := os.Readlink(self(f))
	if err != nil {
		return fmt.Errorf("%s: cannot tell where it is, which --model-roots needs: %w", path, err)
	}
	if !r.has(real) {
		return outside(path)
	}
	return nil
}

func (r Roots) has(path string) bool {
	for _, dir := range r.dirs {
		if path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/") {
			return true
		}
	}
	return false
}

// hide replaces the error of a file that cannot be opened, unless it is below a root: nobody is to learn which files there
// are elsewhere.
func (r Roots) hide(path string, err error) error {
	if r.dirs == nil {
		return err
	}
	abs, absErr := filepath.Abs(path)
	if absErr != nil {
		return outside(path)
	}
	for at := filepath.Clean(abs); ; at = filepath.Dir(at) { // the deepest folder that is there
		if real, evalErr := filepath.EvalSymlinks(at); evalErr == nil {
			if r.has(real) {
				return err
			}
			return outside(path)
		} else if info, lstatErr := os.Lstat(at); at == "/" || lstatErr == nil && info.Mode()&fs.ModeSymlink != 0 {
			return outside(path) // a link that leads nowhere
		}
	}
}

func outside(path string) error { return fmt.Errorf("%s: %w", path, ErrOutside) }

// Files returns the paths of the regular files of a folder that may be read, in the order of their names.
func (r Roots) Files(dir string) []string {
	d, err := open(dir, unix.O_DIRECTORY)
	if err != nil {
		return nil
	}
	defer d.Close()
	entries, _ := d.ReadDir(maxEntries) // what could be read
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
