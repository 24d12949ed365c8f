package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"troupe/actors/supervise"
)

// fileNames are the names of the two files. Both have the same content, each with a checksum.
var fileNames = [2]string{"desired-state.1", "desired-state.2"}

const (
	magic         = "troupe desired state 1 "
	damagedSuffix = ".damaged" // appended to the name of a damaged file
)

// ErrDamaged is returned if no file of a backup can be read.
var ErrDamaged = errors.New("the copy of the desired state is damaged")

// Load returns the last saved state in a folder, or nil if there is none, and the paths of damaged
// files. It returns ErrDamaged if there are only damaged files.
func Load(dir string) (newest *State, damaged []string, err error) {
	var reasons []error
	for _, name := range fileNames {
		path := filepath.Join(dir, name)
		state, err := read(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			damaged, reasons = append(damaged, path), append(reasons, fmt.Errorf("%s: %w", path, err))
		case newest == nil || state.Saved > newest.Saved:
			newest = state
		}
	}
	if newest == nil && len(damaged) > 0 {
		return nil, damaged, fmt.Errorf("%w, so the store cannot be checked: %w; "+
			"restore a file from a backup, or remove both to start with the data that JetStream still has",
			ErrDamaged, errors.Join(reasons...))
	}
	return newest, damaged, nil
}

// SetAside renames damaged files. It replaces those that were set aside earlier.
func SetAside(files []string) error {
	var failed []error
	for _, path := range files {
		failed = append(failed, os.Rename(path, path+damagedSuffix))
	}
	return errors.Join(failed...)
}

// Save writes both files. They are synced at the same time, both before one of them gets its name.
func Save(rt supervise.Runtime, dir string, s *State) error {
	s.Saved++
	body, err := json.Marshal(s)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(body)
	content := append([]byte(magic+hex.EncodeToString(sum[:])+"\n"), body...)
	if err := replaceAll(rt, dir, content); err != nil {
		return fmt.Errorf("copy of the desired state: %w", err)
	}
	return nil
}

func read(path string) (*State, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	header, body, _ := bytes.Cut(content, []byte("\n"))
	sum := sha256.Sum256(body)
	if want, ok := strings.CutPrefix(string(header), magic); !ok || want != hex.EncodeToString(sum[:]) {
		return nil, errors.New("wrong checksum")
	}
	s := &State{}
	if err := json.Unmarshal(body, s); err != nil {
		return nil, err
	}
	return s, nil
}

// replaceAll replaces the files and returns after the new ones are synced to disk under their names.
func replaceAll(rt supervise.Runtime, dir string, content []byte) error {
	var written [2]string // paths of the temporary files
	var failed [2]error
	var running sync.WaitGroup
	for i, name := range fileNames {
		supervise.GoIn(rt, &running, func() {
			written[i], failed[i] = writeTemporary(dir, name, content)
		})
	}
	running.Wait()
	err := errors.Join(failed[:]...)
	for i, path := range written {
		if err == nil {
			err = os.Rename(path, filepath.Join(dir, fileNames[i]))
		}
		if err != nil && path != "" {
			_ = os.Remove(path) // a leftover temporary file does no harm
		}
	}
	if err != nil {
		return err
	}
	return syncFolder(dir)
}

// writeTemporary writes a temporary file for a name, syncs it to disk, and returns its path.
func writeTemporary(dir, name string, content []byte) (path string, err error) {
	f, err := os.CreateTemp(dir, name+".tmp-*") // mode 0600, since the state contains the cluster secret
	if err != nil {
		return "", err
	}
	_, err = f.Write(content)
	return f.Name(), errors.Join(err, f.Sync(), f.Close())
}

func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
