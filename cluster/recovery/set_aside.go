package recovery

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"troupe/cluster/bucket"
)

const (
	jetStream = "jetstream" // nats-server's folder below its store folder
	// asidePrefix is the prefix of folders with files that were set aside.
	asidePrefix = "damaged-"
	maxSetAside = 5 // older folders are removed
)

// streamFolders returns the folders in which nats-server stores a bucket, one for each account.
func streamFolders(dir, name string) []string {
	pattern := filepath.Join(globEscape(dir), jetStream, "*", "streams", bucket.Stream(name))
	found, _ := filepath.Glob(pattern) // the pattern is valid
	return found
}

// globEscape returns a pattern that matches only dir.
func globEscape(dir string) string {
	var quoted []rune
	for _, r := range dir {
		if slices.Contains([]rune(`*?[\`), r) {
			quoted = append(quoted, '\\')
		}
		quoted = append(quoted, r)
	}
	return string(quoted)
}

// setAside moves folders into a new folder below dir and returns it. It returns "" if none of them
// exists.
func setAside(now time.Time, dir string, folders ...string) (aside string, err error) {
	folders = slices.DeleteFunc(slices.Clone(folders), func(path string) bool { return !exists(path) })
	if len(folders) == 0 {
		return "", nil
	}
	aside = filepath.Join(dir, asidePrefix+now.UTC().Format("20060102T150405.000000000Z"))
	for _, path := range folders {
		below, err := filepath.Rel(dir, path)
		if err != nil {
			return "", err
		}
		to := filepath.Join(aside, below)
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.Rename(path, to)); err != nil {
			return "", fmt.Errorf("set %s aside: %w", path, err)
		}
	}
	return aside, removeOldest(dir)
}

func removeOldest(dir string) error {
	all, err := SetAsideFolders(dir)
	for len(all) > maxSetAside && err == nil {
		err, all = os.RemoveAll(all[0]), all[1:]
	}
	return err
}

// SetAsideFolders returns the folders with files that were set aside, oldest first.
func SetAsideFolders(dir string) ([]string, error) {
	all, err := filepath.Glob(filepath.Join(globEscape(dir), asidePrefix+"*"))
	slices.Sort(all)
	return all, err
}
