package stored

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"troupe/core/kv"
)

// secretFile is the name of the secret's file in the data folder.
const secretFile = "cluster-secret"

// readSecret returns the secret in a data folder, or nil if there is none.
func readSecret(dir string) ([]byte, error) {
	path := filepath.Join(dir, secretFile)
	info, err := os.Lstat(path)
	switch {
	case dir == "" || errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || info.Size() > 4*kv.SecretBytes:
		return nil, fmt.Errorf("%s is not a file with a cluster secret; remove it", path)
	case info.Mode().Perm()&0o022 != 0:
		return nil, fmt.Errorf("%s is writable by other users (mode %#o), who may have chosen the secret; remove it",
			path, info.Mode().Perm())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	value, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(value) != kv.SecretBytes {
		return nil, fmt.Errorf("%s is not a file with a cluster secret; remove it", path)
	}
	return value, nil
}

// writeSecret writes the secret to a data folder, readable by the owner only.
func writeSecret(dir string, value []byte) error {
	if dir == "" {
		return nil
	}
	path := filepath.Join(dir, secretFile)
	if info, err := os.Lstat(path); err == nil && info.Mode().Perm() == 0o600 {
		if held, err := readSecret(dir); err == nil && string(held) == string(value) {
			return nil
		}
	}
	f, err := os.CreateTemp(dir, secretFile+".*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.WriteString(hex.EncodeToString(value) + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // a leftover does no harm
	}
	return err
}
