package node

import (
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"troupe/engine/kvstore"
)

// TestCopyMetrics checks that finished and failed copies are counted, but not moves that were not
// started.
func TestCopyMetrics(t *testing.T) {
	c := newCopyMetrics(prometheus.NewRegistry())
	c.observe("hbm", "dram", 100, kvstore.Move{})
	if p := c.paths(); len(p) != 0 {
		t.Errorf("nothing was copied, but counted: %v", p)
	}
	c.observe("hbm", "dram", 100, kvstore.Move{Err: errors.New("full")})
	for range 2 {
		c.observe("hbm", "dram", 100, kvstore.Move{Done: true, Took: time.Second})
	}
	if p := c.paths(); len(p) != 1 || p[0].GetBlocks() != 2 || p[0].GetBytes() != 200 || p[0].GetSeconds() != 2 ||
		p[0].GetFailed() != 1 {
		t.Errorf("%v", p)
	}
}
