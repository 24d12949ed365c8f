// Package costfile reads and writes profiles of core/cost as YAML, and has the facts of the devices
// that ship.
//
// Reading is strict: an unknown key, a value of the wrong type and a value that cannot be are errors
// that show the line with a remedy.
package costfile

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml"

	"troupe/core/cost"
)

//go:embed facts/*.yaml
var shipped embed.FS

// Shipped returns the names of the profiles that ship.
func Shipped() (names []string) {
	files, _ := shipped.ReadDir("facts") // embedded
	for _, f := range files {
		names = append(names, strings.TrimSuffix(f.Name(), ".yaml"))
	}
	return names
}

// Read reads a profile: one that ships by its name, or a file.
func Read(name string) (cost.Profile, error) {
	if b, err := shipped.ReadFile("facts/" + strings.ToLower(name) + ".yaml"); err == nil {
		return Parse(name, b)
	}
	b, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return cost.Profile{}, fmt.Errorf("profile %s: no such file; write one with troupe calibrate, or use one that "+
			"ships: %s", name, strings.Join(Shipped(), ", "))
	}
	if err != nil {
		return cost.Profile{}, fmt.Errorf("profile: %w", err)
	}
	return Parse(name, b)
}

// Parse parses a profile. The name is for errors.
func Parse(name string, b []byte) (p cost.Profile, err error) {
	err = yaml.NewDecoder(bytes.NewReader(b), yaml.Strict()).Decode(&p)
	if errors.Is(err, io.EOF) {
		return p, fmt.Errorf("profile %s is empty; write one with troupe calibrate", name)
	}
	if err != nil {
		return p, fmt.Errorf("profile %s: %w", name, describe(err))
	}
	if err := p.Check(); err != nil {
		return p, fmt.Errorf("profile %s: %w", name, locate(b, err))
	}
	return p, nil
}

// Write writes a profile to a file, which it replaces as a whole.
func Write(path string, p cost.Profile) error {
	if err := p.Check(); err != nil {
		return fmt.Errorf("profile %s: %w", path, err)
	}
	b, err := yaml.MarshalWithOptions(p, yaml.Indent(2))
	if err != nil {
		return fmt.Errorf("profile %s: %w", path, err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".profile-*")
	if err != nil {
		return fmt.Errorf("profile %s: %w", path, err)
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("profile %s: %w", path, errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}
