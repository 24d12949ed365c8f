package recovery_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// cases is the default number of damaged folders to start from. TROUPE_DAMAGED overrides it.
const cases = 60

// damage changes or deletes one file below dir, chosen by the seed, and describes the damage.
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
		done = fmt.Sprintf("bit %d of byte %d of %d flipped", bit, at, len(content))
		err = os.WriteFile(path, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return name + ": " + done
}

// TestDamagedStore checks that a node that starts from a damaged folder has every stored deployment
// and no deleted one. Otherwise it must refuse to start and name the files.
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
			if err := os.CopyFS(dir, os.DirFS(from.Dir)); err != nil {
				t.Fatal(err)
			}
			done := damage(t, dir, seed)
			from.Dir = dir
			out, err := from.child()
			if refusal, ok := strings.CutPrefix(out, refusedPrefix); ok {
				if !strings.Contains(refusal, dir) {
					t.Errorf("%s: the start failed without naming the files: %s", done, refusal)
				}
				t.Logf("%s: refused: %s", done, refusal)
				return
			}
			if err != nil {
				t.Errorf("%s: %v: %s", done, err, out)
			}
		})
	}
}

const (
	refusedPrefix = "REFUSED: "
	// damagedChild is the environment variable that runs TestDamagedChild. Its value is the
	// expected content.
	damagedChild = "TROUPE_DAMAGED_CHILD"
)

// child starts a node from a folder in a separate process, since nats-server may read a damaged
// file forever.
func (p prepared) child() (out string, err error) {
	want, err := json.Marshal(p)
	if err != nil {
		return "", err
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestDamagedChild$")
	cmd.Env = append(os.Environ(), damagedChild+"="+string(want))
	b, err := cmd.CombinedOutput()
	return string(b), err
}

func TestDamagedChild(t *testing.T) {
	given := os.Getenv(damagedChild)
	if given == "" {
		t.Skip("run by TestDamagedStore")
	}
	var p prepared
	if err := json.Unmarshal([]byte(given), &p); err != nil {
		t.Fatal(err)
	}
	n, err := boot(t, p.Dir)
	if err != nil {
		fmt.Println(refusedPrefix + err.Error())
		os.Exit(1) // exit as a node does; the server may still be reading
	}
	p.check(t, n)
}
