package cluster

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// Timeline records events with their times, for display.
type Timeline struct {
	Print func(line string) // called with each line; may be nil

	mu    sync.Mutex
	began time.Time
	lines []string
}

// Note adds a line. The first line is at 0 s.
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

// String returns all lines.
func (t *Timeline) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.lines, "\n")
}
