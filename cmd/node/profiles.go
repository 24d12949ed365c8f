package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"troupe/core/cost"
	"troupe/internal/costfile"
)

// profilesFolder is the folder of a data folder to which troupe calibrate writes profiles.
const profilesFolder = "profiles"

// profilesIn returns the profiles of a folder, in the order of the files' names, without those that cannot be read.
// There may be no such folder.
func profilesIn(folder string) (all []cost.Profile, err error) {
	files, _ := filepath.Glob(filepath.Join(folder, "*.yaml")) // the pattern is well-formed
	slices.Sort(files)
	for _, file := range files {
		p, fault := costfile.Read(file)
		if errors.Is(fault, os.ErrNotExist) {
			continue
		}
		if fault != nil {
			err = errors.Join(err, fault)
			continue
		}
		all = append(all, p)
	}
	return all, err
}
