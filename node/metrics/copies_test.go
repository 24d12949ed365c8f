package metrics

import (
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"troupe/engine/kvstore"
)

// TestCopies checks that finished and failed copies are counted, but not moves that were not
// started.
func TestCopies(t *testing.T) {
	c := NewCopies(prometheus.NewRegistry())
	c.Observe("hbm", "dram", 100, kvstore.Move{})
	if p := c.Paths(); len(p) != 0 {
		t.Errorf("nothing was copied, but counted: %v", p)
	}
	c.Observe("hbm", "dram", 100, kvstore.Move{Err: errors.New("full")})
	for range 2 {
		c.Observe("hbm", "dram", 100, kvstore.Move{Done: true, Took: time.Second})
	}
	if p := c.Paths(); len(p) != 1 || p[0].GetBlocks() != 2 || p[0].GetBytes() != 200 || p[0].GetSeconds() != 2 ||
		p[0].GetFailed() != 1 {
		t.Errorf("%v", p)
	}
}
