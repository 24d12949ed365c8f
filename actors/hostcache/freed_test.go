package hostcache_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"troupe/testkit"
)

// warnings are what the host cache has logged at warning level and above.
type warnings struct {
	mu  sync.Mutex
	all strings.Builder
}

func (w *warnings) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all.Write(line)
}

func (w *warnings) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all.String()
}

// TestFreedImageStaysForItsLoad makes the host cache drop a damaged image that is used by a load unknown to the
// actor. The load frees the memory when it ends, and that is not logged as a failure.
func TestFreedImageStaysForItsLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1<<20, nil, nil)
		dir := tinyModel(t, 1)
		f.load(dir)
		f.park()
		f.status()
		f.images.Issue("unknown", f.images.Held()[0].Key, false, time.Now().Add(time.Hour))
		use := f.images.Claim("unknown")

		f.memory.damage()
		f.load(dir)
		f.park()
		if s := f.status(); len(s.GetImages()) != 1 || f.memory.count() != 2 {
			t.Errorf("%v, %d images have memory", s, f.memory.count())
		}
		if err := use.Close(); err != nil || f.memory.count() != 1 {
			t.Errorf("%v, %d images have memory", err, f.memory.count())
		}
		testkit.Until(t, "the end of the use", func() bool { return !f.images.Issued("unknown") })
		if all := f.log.String(); strings.Count(all, "\n") != 1 || !strings.Contains(all, "image damaged; dropped") {
			t.Errorf("logged: %s", all)
		}
	})
}
