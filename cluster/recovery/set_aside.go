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
	jetStream = "jetstream" // nats-server's folder below that of its store
	// asidePrefix begins the names of folders with files that were set aside.
	asidePrefix = "damaged-"
	maxSetAside = 5 // older ones are removed
)

// streamFolders returns where nats-server keeps a bucket: below the folder of an account.
func streamFolders(dir, name string) []string {
	pattern := filepath.Join(globEscape(dir), jetStream, "*", "streams", bucket.Stream(name))
	found, _ := filepath.Glob(pattern) // it is valid
	return found
}

// glob returns a pattern that a folder's name matches alone.
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

// setAside moves folders into a new one below dir, which it returns; "" where there is none to move.
func setAside(dir string, folders ...string) (aside string, err error) {
	folders = slices.DeleteFunc(slices.Clone(folders), func(path string) bool { return !exists(path) })
	if len(folders) == 0 {
		return "", nil
	}
	aside = filepath.Join(dir, asidePrefix+time.Now().UTC().Format("20060102T150405.000000000Z"))
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

// SetAsideFolders returns the folders with damaged files that were set aside, the oldest first.
func SetAsideFolders(dir string) ([]string, error) {
	all, err := filepath.Glob(filepath.Join(globEscape(dir), asidePrefix+"*"))
	slices.Sort(all)
	return all, err
}
