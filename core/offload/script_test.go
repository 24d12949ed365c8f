package offload

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"troupe/core/kv"
	"troupe/testkit/script"
)

// TestScripts runs the scripts in testdata. They start at second 0; the word t=1.5s sets the clock.
// Each Select is answered with the next list in the word select. For example, select=1,2;;3 selects
// blocks 1 and 2, then none, then block 3, then none. The pool has 64 blocks, so at most 4 are
// copied at once.
func TestScripts(t *testing.T) {
	script.Run(t, "testdata/*.txt", func(t *testing.T) script.Handler {
		p := &player{t: t, now: epoch}
		return p.event
	})
}

// player runs the events of a script.
type player struct {
	t        *testing.T
	m        *Machine
	now      time.Time
	words    map[string]string
	selected []string
}

var epoch = time.Unix(1e9, 0)

func (p *player) event(line []string) []string {
	p.words = make(map[string]string)
	for _, word := range line[1:] {
		key, value, _ := strings.Cut(word, "=")
		p.words[key] = value
	}
	if at := p.words["t"]; at != "" {
		d, err := time.ParseDuration(at)
		if err != nil {
			p.t.Fatal(err)
		}
		p.now = epoch.Add(d)
	}
	if line[0] == "replica" {
		_, noDigest := p.words["no-digest"]
		_, remote := p.words["remote"]
		p.m, p.now = New(Config{Replica: "m-0", Node: "n1", Tier: p.words["tier"], Digest: !noDigest,
			Remote: remote || p.words["tier"] != ""}), epoch
		return nil
	}
	p.selected = strings.Split(p.words["select"], ";")
	out := p.carryOut(p.step(line[0]))
	return append(out, fmt.Sprintf("%s, %d stored", p.m.State(), p.m.Stored()))
}

// carryOut formats effects, including those that follow a Select.
func (p *player) carryOut(effects []Effect) (out []string) {
	for _, e := range effects {
		switch out = append(out, text(e)); e.(type) {
		case Select:
			blocks := ""
			if len(p.selected) > 0 {
				blocks, p.selected = p.selected[0], p.selected[1:]
			}
			out = append(out, p.carryOut(p.m.Selected(committed(blocks), p.now))...)
		case LoadPins:
			var prefixes [][]kv.Hash
			for prefix := range strings.SplitSeq(p.words["pins"], ";") {
				var hashes []kv.Hash
				for _, b := range committed(prefix) {
					hashes = append(hashes, b.Hash)
				}
				prefixes = append(prefixes, hashes)
			}
			out = append(out, p.carryOut(p.m.PinsLoaded(prefixes))...)
		}
	}
	return out
}

func (p *player) step(name string) []Effect {
	from := Actor{ID: p.words["from"]}
	_, starting := p.words["starting"]
	switch name {
	case "tick":
		return p.m.Tick(Tick{Steps: uint64(p.number("steps")), Allocations: uint64(p.number("allocated")), Blocks: 64,
			AllBlocks: 64})
	case "copied":
		var stored []bool
		for _, s := range p.words["stored"] {
			stored = append(stored, s == 'y')
		}
		return p.m.Copied(uint64(p.number("n")), stored, p.words["fault"], p.now)
	case "lost":
		return p.m.CopyLost(p.now)
	case "retry":
		return p.m.Retry()
	case "offload":
		return p.m.Offload(p.words["id"], from, !starting, p.now)
	case "restore":
		return p.m.Restore(p.words["id"], from, !starting)
	case "flush":
		return p.m.Flush(p.words["id"], from, !starting)
	case "pins":
		return p.m.SyncPins(uint64(p.number("version")))
	}
	p.t.Fatalf("unknown event %s", name)
	return nil
}

func (p *player) number(word string) int {
	if p.words[word] == "" {
		return 0
	}
	n, err := strconv.Atoi(p.words[word])
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

// committed returns the blocks of a list of numbers.
func committed(list string) (blocks []kv.Committed) {
	for name := range strings.SplitSeq(list, ",") {
		if n, err := strconv.Atoi(name); err == nil {
			blocks = append(blocks, kv.Committed{Block: int32(n), Hash: kv.Root("block", name, nil)})
		}
	}
	return blocks
}

// text formats an effect.
func text(e Effect) string {
	switch e := e.(type) {
	case Select:
		if e.Idle {
			return fmt.Sprintf("select up to %d unused for %d steps", e.Burst, e.IdleSteps)
		}
		return fmt.Sprintf("select up to %d above %.2f", e.Burst, e.Watermark)
	case Copy:
		var blocks []int32
		for _, b := range e.Blocks {
			blocks = append(blocks, b.Block)
		}
		return fmt.Sprintf("copy %d: %v", e.Number, blocks)
	case Finish:
		return fmt.Sprintf("finish %v", e.Blocks)
	case RetryAfter:
		return fmt.Sprintf("retry after %s", e.After)
	case ReportSteps:
		return fmt.Sprintf("report %d steps", e.Steps)
	case Advance:
		return "advance"
	case Answer:
		return fmt.Sprintf("answer %s of %s: %d blocks in %s, detail %q", e.ID, e.To.ID, e.Blocks, e.Took, e.Detail)
	case Refuse:
		return fmt.Sprintf("refuse %s of %s: %s: %s (retry after %s)", e.ID, e.To.ID, e.Reason, e.Detail, e.RetryAfter)
	case Prefetch:
		return fmt.Sprintf("prefetch for %q of %q: %d blocks", e.ID, e.To.ID, len(e.Hashes))
	case Flush:
		return fmt.Sprintf("flush HBM for %s of %s", e.ID, e.To.ID)
	case LoadPins:
		return "load pins"
	case SetPins:
		return fmt.Sprintf("pin %d blocks", len(slices.Collect(maps.Keys(e.Hashes))))
	case SendPins:
		return fmt.Sprintf("send %d pins", len(e.Hashes))
	case Ignored:
		return fmt.Sprintf("ignored: %s in %s", e.Event, e.State)
	}
	return fmt.Sprintf("%#v", e)
}
