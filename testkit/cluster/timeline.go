package cluster

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// Timeline notes what happened when, for people.
type Timeline struct {
	Print func(line string) // each line as it comes; may be nil

	mu    sync.Mutex
	began time.Time
	lines []string
}

// Note adds a line. The first one is at 0 s.
func (t *Timeline) Note(format string, v ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.began.IsZero() {
		t.began = time.Now()
	}
	line := fmt.Sprintf("%7.2f s  %s", time.Since(t.began).Seconds(), fmt.Sprintf(format, v...))
	t.lines = append(t.lines, line)
	if t.Print != nil {
		t.Print(line)
	}
}

// String is all of it.
func (t *Timeline) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.lines, "\n")
}
