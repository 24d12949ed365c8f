package verify

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"troupe/testkit/script"
)

// TestLoadScripts plays the scripts in testdata/load. The events are:
//
//	record TOKENS            what the canary must give; none at first
//	loaded SOURCE...         a source with an asterisk is an image
//	computed TOKENS [last]   last: no other source may be tried
//	exhausted
//
// Tokens are separated by commas. The effects are followed by the state.
func TestLoadScripts(t *testing.T) {
	script.Run(t, "testdata/load/*.txt", func(t *testing.T) script.Handler {
		p := &loadPlayer{t: t, load: NewLoad()}
		return func(line []string) (out []string) {
			for _, e := range p.event(line) {
				out = append(out, effectText(e))
			}
			return append(out, p.load.State().String())
		}
	})
}

type loadPlayer struct {
	t        *testing.T
	load     *Load
	recorded *Record
}

func (p *loadPlayer) event(line []string) []Effect {
	switch line[0] {
	case "record":
		p.recorded = &Record{Prompt: []uint32{1}, Tokens: tokensOf(line[1])}
		return nil
	case "loaded":
		var all []Source
		for _, name := range line[1:] {
			cut, image := strings.CutSuffix(name, "*")
			all = append(all, Source{strings.ReplaceAll(cut, "_", " "), image})
		}
		return p.load.Loaded(all...)
	case "computed":
		return p.load.Computed(tokensOf(line[1]), p.recorded, len(line) < 3)
	case "exhausted":
		return p.load.Exhausted()
	}
	p.t.Fatalf("unknown event %s", line[0])
	return nil
}

// TestRecordScripts plays the scripts in testdata/records. The events are recorded, stored, unreadable and
// deleted, with the name of a key and the tokens, and retry.
func TestRecordScripts(t *testing.T) {
	script.Run(t, "testdata/records/*.txt", func(t *testing.T) script.Handler {
		r := NewRecords()
		return func(line []string) (out []string) {
			key := ""
			if len(line) > 1 {
				key = line[1]
			}
			for _, e := range recordEffects(t, r, key, line) {
				out = append(out, effectText(e))
			}
			found, _ := r.Find(key)
			return append(out, fmt.Sprintf("%s %v", r.State(key), found.Tokens))
		}
	})
}

func recordEffects(t *testing.T, r *Records, key string, line []string) []Effect {
	switch line[0] {
	case "recorded":
		return r.Recorded(key, Record{Prompt: []uint32{1}, Tokens: tokensOf(line[2])})
	case "stored":
		return r.Stored(key, Record{Prompt: []uint32{1}, Tokens: tokensOf(line[2])})
	case "unreadable":
		return r.Unreadable(key, "not JSON")
	case "deleted":
		return r.Deleted(key)
	case "retry":
		return r.Retry()
	}
	t.Fatalf("unknown event %s", line[0])
	return nil
}

func tokensOf(text string) (all []uint32) {
	for one := range strings.SplitSeq(text, ",") {
		n, _ := strconv.ParseUint(one, 10, 32)
		all = append(all, uint32(n))
	}
	return all
}

func effectText(e Effect) string {
	switch e := e.(type) {
	case Recorded:
		return fmt.Sprintf("record %v", e.Tokens)
	case Drop:
		return fmt.Sprintf("drop %s: %s", e.Source.Name, e.Why())
	case Suspect:
		return fmt.Sprintf("suspect %s: %s", e.Source.Name, e.Why())
	case Fail:
		return "fail: " + Names(e.Rejections)
	case Store:
		return fmt.Sprintf("store %s %v", e.Name, e.Record.Tokens)
	case Replace:
		return fmt.Sprintf("replace %s %v", e.Name, e.Record.Tokens)
	case Unreadable:
		return fmt.Sprintf("unreadable %s: %s", e.Name, e.Why)
	case Conflict:
		return fmt.Sprintf("conflict %s: %v, stored %v", e.Name, e.Known.Tokens, e.Stored.Tokens)
	case Ignored:
		return fmt.Sprintf("ignored %s in %s: %s", e.Event, e.State, e.Why)
	}
	return strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", e), "verify."))
}
