package restore

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"troupe/core/kv"
	"troupe/testkit/script"
)

// TestScripts runs the scripts in testdata. Each block is a letter. The word blocks=abcd lists
// those of a sequence, of which the first have=1 are in HBM. A source is the index of a tier; 2 is
// a remote holder. In a config, diskless means that there are no tiers. Reserve and StartSequence
// are answered at once: room=2 limits the free blocks, and with the word busy the start is refused.
func TestScripts(t *testing.T) {
	script.Run(t, "testdata/*.txt", func(t *testing.T) script.Handler {
		p := &player{t: t}
		return p.event
	})
}

// player runs the events of a script.
type player struct {
	t     *testing.T
	m     *Machine
	words map[string]string
	next  int32 // next block to be reserved
}

func (p *player) event(line []string) []string {
	p.words = make(map[string]string)
	for _, word := range line[1:] {
		key, value, _ := strings.Cut(word, "=")
		p.words[key] = value
	}
	if line[0] == "config" {
		tiers := []string{"dram", "nvme"}
		if _, none := p.words["diskless"]; none {
			tiers = nil
		}
		p.m = New(Config{Tiers: tiers, BlockBytes: 1000, BlockTokens: 4, StepTokens: 100,
			Policy: kv.RestorePolicy(p.words["policy"]), Parts: p.number("parts")})
		p.next = 10
		return nil
	}
	out := p.play(p.step(line[0]))
	if id := p.words["id"]; id != "" {
		out = append(out, "→ "+p.m.State(id).String())
	}
	return out
}

// play formats effects, including those that follow from their answers.
func (p *player) play(effects []Effect) (out []string) {
	for _, effect := range effects {
		out = append(out, text(effect))
		switch e := effect.(type) {
		case Reserve:
			begin, blocks := make([]int32, len(e.Have)), []int32(nil)
			for i := range begin {
				begin[i] = int32(i)
			}
			for range min(e.Blocks, p.room()) {
				blocks = append(blocks, p.next)
				p.next++
			}
			out = append(out, p.play(p.m.Reserved(e.Number, begin, blocks))...)
		case StartSequence:
			if _, busy := p.words["busy"]; !busy {
				out = append(out, p.play(p.m.Started(e.Number))...)
			}
		}
	}
	return out
}

func (p *player) room() int {
	if p.words["room"] == "" {
		return 100
	}
	return p.number("room")
}

func (p *player) step(name string) []Effect {
	m, id, number := p.m, p.words["id"], uint64(p.number("n"))
	switch name {
	case "queued":
		return m.Queued(id)
	case "admissible":
		_, remote := p.words["remote"]
		return m.Admissible(Candidate{id, p.hashes(), p.number("have"), remote})
	case "prefetch":
		return m.Prefetch(uint64(p.number("command")), Candidate{Hashes: p.hashes(), Have: p.number("have")})
	case "looked-up":
		var sources []int
		for _, s := range p.words["sources"] {
			sources = append(sources, int(s-'0'))
		}
		return m.LookedUp(number, sources, []kv.Path{{Name: "b", ProbeBlocks: 1}})
	case "judged":
		_, runs := p.words["runs"]
		return m.Judged(number, Sequence{!runs, p.number("tokens")})
	case "arrived":
		return m.Arrived(number, p.number("parts"), p.number("of"), p.duration("after"))
	case "start":
		return m.StartReady()
	case "step-done":
		return m.StepDone(id)
	case "step-aborted":
		return m.StepAborted(id)
	case "copied":
		read := Read{int64(p.number("bytes")), p.duration("took")}
		return m.Copied(number, Result{Blocks: p.number("blocks"), Reads: []Read{read, {}}, Why: p.words["why"]})
	case "ended":
		return m.EndRestores()
	case "dropped":
		return m.Dropped(id)
	case "lost":
		return m.CopierLost()
	case "prefilled":
		m.Prefilled(p.number("tokens"), p.duration("took"))
		return nil
	case "counts":
		return []Effect{counts(m.Counts())}
	case "gate":
		return []Effect{gate{m.Gate(id)}}
	}
	p.t.Fatalf("unknown event %s", name)
	return nil
}

// counts and gate are shown like effects.
type (
	counts Counts
	gate   struct{ Number uint64 }
)

func (counts) isEffect() {}
func (gate) isEffect()   {}

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

func (p *player) duration(word string) time.Duration {
	d, err := time.ParseDuration(p.words[word])
	if err != nil && p.words[word] != "" {
		p.t.Fatal(err)
	}
	return d
}

func (p *player) hashes() (all []kv.Hash) {
	for _, letter := range p.words["blocks"] {
		all = append(all, kv.Hash{byte(letter)})
	}
	return all
}

// letters returns the blocks with these hashes.
func letters(all []kv.Hash) (s string) {
	for _, h := range all {
		s += string(rune(h[0]))
	}
	return s
}

// text formats an effect.
func text(effect Effect) string {
	switch e := effect.(type) {
	case Hold:
		return "hold " + e.ID
	case Resume:
		return "resume " + e.ID
	case LookUp:
		return fmt.Sprintf("look up %d blocks=%s remote=%v within=%s", e.Number, letters(e.Hashes), e.Remote, e.Within)
	case Unlock:
		return fmt.Sprintf("unlock %d", e.Number)
	case Reserve:
		return fmt.Sprintf("reserve %d have=%s blocks=%d", e.Number, letters(e.Have), e.Blocks)
	case Copy:
		return fmt.Sprintf("copy %d to=%v within=%s parts=%d gate=%v: %s", e.Number, e.Blocks, e.Within, e.Parts,
			e.Gate, e.Why)
	case CanStart:
		return "can start " + e.ID + ": " + e.Why
	case StartSequence:
		return fmt.Sprintf("start %s table=%v resident=%d", e.ID, e.Table, e.Resident)
	case FinishStart:
		return "finish start of " + e.ID
	case UndoStart:
		return "undo start of " + e.ID
	case CloseGate:
		return fmt.Sprintf("close gate %d", e.Number)
	case Incomplete:
		return "incomplete: " + e.Why
	case Commit:
		return fmt.Sprintf("commit %v blocks=%s", e.Blocks, letters(e.Hashes))
	case MarkBacked:
		return fmt.Sprintf("mark backed %v blocks=%s", e.Blocks, letters(e.Hashes))
	case Release:
		return fmt.Sprintf("release %v", e.Blocks)
	case Answer:
		return fmt.Sprintf("answer %d: %d blocks %q", e.Command, e.Blocks, e.Why)
	case Report:
		return "report"
	case Ignored:
		return fmt.Sprintf("ignored %s in %s: %s", e.Event, e.State, e.Why)
	}
	return strings.TrimPrefix(fmt.Sprintf("%+v", effect), "restore.")
}
