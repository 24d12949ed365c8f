package tier

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"troupe/core/export"
	"troupe/core/kv"
	"troupe/testkit/script"
)

// TestScripts runs the scripts in testdata. The tier has slabs for four small blocks or one large
// block. Blocks are numbers; those from 100 on are large.
func TestScripts(t *testing.T) {
	script.Run(t, "testdata/*.txt", func(t *testing.T) script.Handler {
		p := &player{t: t, names: make(map[kv.Hash]string)}
		return p.event
	})
}

// player runs the events of a script.
type player struct {
	t     *testing.T
	m     *Machine
	words map[string]string
	names map[kv.Hash]string
}

const (
	smallBytes = 100
	largeBytes = 3*kv.SlotUnit + 1
)

func (p *player) event(line []string) []string {
	p.words = make(map[string]string)
	for _, word := range line[1:] {
		key, value, _ := strings.Cut(word, "=")
		p.words[key] = value
	}
	if line[0] == "tier" {
		p.m = New(p.config())
		return nil
	}
	var out []string
	for _, e := range p.step(line[0], p.words["id"], Actor{ID: p.words["from"]}) {
		out = append(out, p.text(e))
	}
	s := p.m.Stats()
	return append(out, fmt.Sprintf("free %d arriving %d resident %d leaving %d pinned %d damaged %d demotion %s",
		s.Free, s.Arriving, s.Resident, s.Leaving, s.Pinned, s.Damaged, p.m.demotion))
}

func (p *player) config() Config {
	_, lower := p.words["lower"]
	_, router := p.words["router"]
	watermark := 1.0
	if w := p.words["watermark"]; w != "" {
		watermark, _ = strconv.ParseFloat(w, 64)
	}
	return Config{
		Name: "dram", Policy: "lru", Lower: lower, Router: router,
		Limits: kv.TierLimits{Slabs: kv.Slabs{Count: p.number("slabs"), Bytes: 4 * kv.SlotUnit}, Watermark: watermark,
			IdleSteps: uint64(p.number("idle")), Burst: 4},
		Export: export.Config{Name: "tier dram", MaxBytes: largeBytes},
	}
}

func (p *player) step(name, id string, from Actor) []Effect {
	switch name {
	case "recover":
		for i, h := range p.hashes("blocks") {
			p.m.Recover(int32(i), h, smallBytes)
		}
		return nil
	case "reserve":
		return p.m.Reserve(id, from, p.hashes("blocks"), p.size())
	case "commit":
		return p.m.Commit(id, p.hashes("written"))
	case "timeout":
		return p.m.ReservationTimeout(id)
	case "lock":
		return p.m.Lock(id, from, p.hashes("blocks"))
	case "unlock":
		return p.m.Unlock(id, p.hashes("damaged"))
	case "steps":
		return p.m.StepsDone(p.number("n"))
	case "copied":
		return p.m.CopyEnded(p.outcomes(), p.words["fault"] != "")
	case "retry":
		return p.m.Retry()
	case "pin":
		return p.m.Pin(p.words["replica"], p.hashes("blocks"))
	case "pins-timeout":
		return p.m.PinsTimeout(p.words["replica"], uint64(p.number("version")))
	case "flush":
		return p.m.Flush(id, from)
	case "erased":
		return p.m.Erased(id, p.words["fault"])
	case "announce":
		_, everything := p.words["everything"]
		return p.m.Announce(everything)
	case "lease":
		return p.m.Lease(export.Request{ID: id, From: from, Hashes: p.hashes("blocks"), Space: space,
			BlockBytes: smallBytes, Within: time.Second})
	case "release":
		return p.m.Release(id)
	case "exported":
		return p.m.ExportEnded(id, p.hashes("damaged"), p.words["fault"])
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

var space = kv.Root("space", "", nil)

// hashes returns the blocks listed in a word. A block written as "n." is block n as replicas know
// it, outside the namespace of the tier.
func (p *player) hashes(word string) (all []kv.Hash) {
	for name := range strings.SplitSeq(p.words[word], ",") {
		if name == "" {
			continue
		}
		h := kv.Root("block", strings.TrimSuffix(name, "."), nil)
		if !strings.HasSuffix(name, ".") {
			h = h.Namespaced(space)
		}
		p.names[h] = name
		all = append(all, h)
	}
	return all
}

func (p *player) size() int {
	if n, _, _ := strings.Cut(p.words["blocks"], ","); len(n) == 4 {
		return 1 << 20
	} else if len(n) == 3 {
		return largeBytes
	}
	return smallBytes
}

func (p *player) outcomes() (all []Outcome) {
	for o := range strings.SplitSeq(p.words["outcomes"], ",") {
		switch o {
		case "stored":
			all = append(all, Stored)
		case "damaged":
			all = append(all, DamagedSource)
		case "not":
			all = append(all, NotCopied)
		}
	}
	return all
}

func (p *player) slots(all []Slot) string {
	var out []string
	for _, s := range all {
		out = append(out, fmt.Sprintf("%s@%d", p.names[s.Hash], s.Slot))
	}
	return "[" + strings.Join(out, " ") + "]"
}

func (p *player) blocks(all []kv.Hash) string {
	var out []string
	for _, h := range all {
		out = append(out, p.names[h])
	}
	return "[" + strings.Join(out, " ") + "]"
}

// text formats an effect.
func (p *player) text(e Effect) string {
	switch e := e.(type) {
	case AnswerReserve:
		return fmt.Sprintf("answer %s: slots %s held %s", e.To.ID, p.slots(e.Slots), p.blocks(e.Held))
	case RefuseReserve:
		return fmt.Sprintf("refuse %s: %s", e.To.ID, e.Detail)
	case AnswerLock:
		return fmt.Sprintf("answer %s: read %s", e.To.ID, p.slots(e.Slots))
	case AnswerFlush:
		return fmt.Sprintf("answer %s: %d blocks dropped, fault %q", e.To.ID, e.Blocks, e.Fault)
	case Copy:
		var blocks []Slot
		for _, b := range e.Blocks {
			blocks = append(blocks, Slot{b.Slot, b.Hash})
		}
		return fmt.Sprintf("copy %d: %s", e.Number, p.slots(blocks))
	case Erase:
		return fmt.Sprintf("erase %v", e.Slots)
	case Export:
		return fmt.Sprintf("export: %T", e.Effect)
	case Announce:
		return fmt.Sprintf("announce %d committed, %d evicted, snapshot %v",
			len(e.Committed), len(e.Evicted), e.Snapshot)
	case ExpireReservation:
		return fmt.Sprintf("timer %s for reservation %s", e.After, e.ID)
	case ExpirePins:
		return fmt.Sprintf("timer %s for the pins of %s, version %d", e.After, e.Replica, e.Version)
	case Pause:
		return fmt.Sprintf("pause %s", e.After)
	case Dropped:
		return fmt.Sprintf("dropped %d: %s", e.Blocks, e.Why)
	case Damaged:
		return "damaged " + p.names[e.Hash]
	case TimedOut:
		return fmt.Sprintf("timed out after %s", e.Waited)
	case Ignored:
		return fmt.Sprintf("ignored: %s of %s in %s", e.Trigger, e.Object, e.State)
	}
	return fmt.Sprintf("%#v", e)
}
