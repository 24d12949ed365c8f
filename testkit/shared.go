package testkit

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// Root is the repository's root folder.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(file))
}

// Model is the folder of the model that ships with the project.
func Model() string { return filepath.Join(Root(), "models", "kjv-2m") }

// Shared returns the path of a file or folder of ../shared, the data that is not part of the project. Where it is absent, the test
// is skipped. TROUPE_SHARED names another place.
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
