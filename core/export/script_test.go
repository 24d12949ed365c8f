package export

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"troupe/core/kv"
	"troupe/testkit/script"
)

// TestScripts runs the scripts in testdata. The word have=2 sets how many of the requested blocks
// the holder locks. The holder numbers them from 10.
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
}

func hash(name string) kv.Hash { return kv.Root("test", name, nil) }

func (p *player) event(line []string) []string {
	p.words = make(map[string]string)
	for _, word := range line[1:] {
		key, value, _ := strings.Cut(word, "=")
		p.words[key] = value
	}
	if line[0] == "holder" {
		cfg := Config{Name: p.words["name"], MaxBytes: p.number("max"), RetryAfter: time.Second,
			Unsupported: strings.ReplaceAll(p.words["unsupported"], "_", " ")}
		_, cfg.NotReady = p.words["not-ready"]
		if space := p.words["space"]; space != "" {
			cfg.Own = &Own{Space: hash(space), Bytes: p.number("bytes"), Layout: "layout"}
		}
		p.m = New(cfg)
		return nil
	}
	id := p.words["id"]
	effects := p.step(line[0], id)
	out := []string{p.m.State(id).String()}
	for i := 0; i < len(effects); i++ {
		if _, ok := effects[i].(Lock); ok {
			effects = append(effects, p.m.Locked(id, p.blocks())...)
		}
		out = append(out, text(effects[i]))
	}
	out[0] = p.m.State(id).String()
	return append(out, fmt.Sprint("sent ", p.m.Sent()))
}

func (p *player) step(name, id string) []Effect {
	switch name {
	case "lease":
		return p.m.Lease(p.request(id))
	case "locked":
		return p.m.Locked(id, p.blocks())
	case "release":
		return p.m.Release(id)
	case "ended":
		var damaged []kv.Hash
		if name := p.words["damaged"]; name != "" {
			damaged = []kv.Hash{hash(name)}
		}
		return p.m.Ended(id, damaged, p.words["fault"])
	}
	p.t.Fatalf("unknown event %s", name)
	return nil
}

func (p *player) request(id string) Request {
	within, _ := time.ParseDuration(p.words["within"])
	r := Request{ID: id, From: Actor{"n", p.words["from"]}, BlockBytes: uint64(p.number("bytes")), Within: within,
		Malformed: p.words["malformed"]}
	if space := p.words["space"]; space != "" {
		r.Space = hash(space)
	}
	return r
}

func (p *player) blocks() (all []int32) {
	for i := range p.number("have") {
		all = append(all, int32(10+i))
	}
	return all
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

// text formats an effect.
func text(e Effect) string {
	switch e := e.(type) {
	case Lock:
		return "lock the blocks of " + e.Request.ID
	case Send:
		return fmt.Sprintf("send %v within %s", e.Blocks, e.Within)
	case Cancel:
		return "cancel " + e.ID
	case Drop:
		return fmt.Sprintf("drop %d blocks", len(e.Hashes))
	case Unlock:
		return fmt.Sprintf("unlock %v", e.Blocks)
	case Answer:
		return fmt.Sprintf("answer %s: %d blocks", e.To.ID, e.Blocks)
	case Refuse:
		if e.RetryAfter > 0 {
			return fmt.Sprintf("refuse %s: %s: %s, retry after %s", e.To.ID, e.Reason, e.Detail, e.RetryAfter)
		}
		return fmt.Sprintf("refuse %s: %s: %s", e.To.ID, e.Reason, e.Detail)
	case Ignored:
		return fmt.Sprintf("ignored: %s in %s", e.Event, e.State)
	}
	return fmt.Sprintf("%#v", e)
}
