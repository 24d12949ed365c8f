package node_test

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"troupe/messages"
	"troupe/node"
	"troupe/testkit"
)

// record keeps the log lines that contain one of the given texts.
type record struct {
	says []string
	mu   sync.Mutex
	seen []string
}

func (j *record) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, s := range j.says {
		if strings.Contains(string(line), s) {
			j.seen = append(j.seen, string(line))
		}
	}
	return len(line), nil
}

// TestTwoBlockSizesChangeNoToken checks that two models with blocks of different sizes reassign
// slabs of DRAM to each other. Their blocks are demoted to NVMe, not dropped, and both models get
// the tokens of a run without tiers.
func TestTwoBlockSizesChangeNoToken(t *testing.T) {
	const many, rounds = 20, 2
	two := func(c *node.Config) {
		c.Deployments[0].KvBlocks = new(uint32(70))
		c.Deployments = append(c.Deployments, &messages.DeploymentSpec{
			Name:        "large",
			Path:        testkit.Model(),
			KvBlocks:    new(uint32(24)),
			BlockTokens: new(uint32(64)),
		})
	}
	want := plainConversations(t, many)
	j := &record{
		says: []string{"blocks of another size needed it", "dropping blocks of another size", "demotion failed"},
	}
	n := start(t, withLight(t, withTiers(filepath.Join(t.TempDir(), "kv"), two,
		func(c *node.Config) { c.Log = zerolog.New(j).Level(zerolog.DebugLevel) })))
	for range rounds {
		for _, model := range []string{"kjv", "large"} {
			for i, got := range completeConversationsOf(t, n, model, many) {
				if got != want[i] || got == "" {
					t.Errorf("%s, prompt %d: got %q, want %q", model, i, got, want[i])
				}
			}
		}
	}
	dram, nvme := awaitSettledTiers(t, n)
	t.Logf("restored %d and %d; %v; %v", replica(t, n, "kjv").GetKvRestored(),
		replica(t, n, "large").GetKvRestored(), dram, nvme)
	if len(nvme.GetSizes()) != 2 || replica(t, n, "kjv").GetKvRestored() == 0 ||
		dram.GetDamaged()+nvme.GetDamaged() > 0 {
		t.Error("too few blocks were demoted or restored")
	}
	if z := dram.GetSizes(); z[len(z)-1].GetSlabs() < 3 {
		t.Errorf("the model used last has few slots of DRAM: %v", z)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if all := strings.Join(j.seen, ""); strings.Contains(all, j.says[0]) && !strings.Contains(all, j.says[1]) &&
		!strings.Contains(all, j.says[2]) {
		t.Errorf("blocks dropped although the disk had room: %s", all)
	}
}
