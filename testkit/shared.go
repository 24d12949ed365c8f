package testkit

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// Root returns the repository's root folder.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(file))
}

// Model returns the folder of the shipped model.
func Model() string { return filepath.Join(Root(), "models", "kjv-2m") }

// Shared returns the path of a file or folder in ../shared, data that is not part of the project.
// It skips the test if the data is missing. TROUPE_SHARED sets another folder.
func Shared(t testing.TB, name string) string {
	t.Helper()
	dir := os.Getenv("TROUPE_SHARED")
	if dir == "" {
		dir = filepath.Join(filepath.Dir(Root()), "shared")
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("needs %s, which is not part of the project; set TROUPE_SHARED to the folder that has it", path)
	}
	return path
}
