package recovery_test

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// cases is how many damaged folders the normal tests start from; TROUPE_DAMAGED=500 makes it 500.
const cases = 60

// damage changes one file below dir, or deletes it, as a seed says, and returns what it did.
func damage(t *testing.T, dir string, seed int) string {
	t.Helper()
	random := rand.New(rand.NewPCG(uint64(seed), 5))
	var files []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files to damage, %v", len(files), err)
	}
	path := files[random.IntN(len(files))]
	name, _ := filepath.Rel(dir, path)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	done := ""
	switch kind := random.IntN(4); {
	case kind == 0 || len(content) == 0:
		err, done = os.Remove(path), "deleted"
	case kind == 1:
		to := random.IntN(len(content))
		err, done = os.Truncate(path, int64(to)), fmt.Sprintf("truncated from %d to %d bytes", len(content), to)
	default:
		at, bit := random.IntN(len(content)), random.IntN(8)
		content[at] ^= 1 << bit
		err, done = os.WriteFile(path, content, 0o600), fmt.Sprintf("bit %d of byte %d of %d flipped", bit, at, len(content))
	}
	if err != nil {
		t.Fatal(err)
	}
	return name + ": " + done
}

// TestDamagedStore: a node that starts from a damaged folder has every deployment that was stored,
// and none that was deleted, or does not start and says why.
func TestDamagedStore(t *testing.T) {
	count := cases
	if given := os.Getenv("TROUPE_DAMAGED"); given != "" {
		var err error
		if count, err = strconv.Atoi(given); err != nil {
			t.Fatal(err)
		}
	}
	stopped, killed := prepare(t)
	for seed := range count {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			dir, from := t.TempDir(), stopped
			if seed%2 == 1 {
				from = killed
			}
			if err := os.CopyFS(dir, os.DirFS(from.dir)); err != nil {
				t.Fatal(err)
			}
			done := damage(t, dir, seed)
			n, err := boot(t, dir)
			if err != nil {
				if !strings.Contains(err.Error(), dir) {
					t.Errorf("%s: the start failed without naming the files: %v", done, err)
				}
				t.Logf("%s: refused: %v", done, err)
				return
			}
			from.check(t, n, done)
		})
	}
}
