package device

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"troupe/core/hbm"
	"troupe/core/quarantine"
	"troupe/testkit/script"
)

// TestScripts runs testdata/*.txt on a device of 16 pages, of which a quarter is reserved for KV
// blocks. A model needs weights=2 pages and has at most blocks=8 blocks of one page, at least
// min=2. The events are:
//
//	load LEASE REQUEST [weights=N] [blocks=N] [min=N] [adapters=N] [revision=X] [deploy=N]
//	     [quarantined | lost]
//	inspected LEASE [fault=CAUSE]
//	loaded LEASE [fault=CAUSE] [found=X]     as the last Load of the lease requested it
//	unload LEASE REQUEST, unload-all
//	freed LEASE [fault=CAUSE]
//	report LEASE BLOCKS [min=N] [wants=N] [priority=N]
//	shrunk LEASE [kept=WHY] [late=N]         answers the last AskShrink, or one N attempts earlier
//	timeout LEASE [late=N]
//	resized LEASE [fault=CAUSE] [late=N]
//	adapters LEASE REQUEST [pages=N]
//	allocated LEASE [fault=CAUSE] [late=N]
//	restart                                  with the models that were loaded
//	tick [quarantined | lost], wait 1s
//
// CAUSE is memory, revision, lost, unsupported or other. The effects are followed by the leases.
func TestScripts(t *testing.T) {
	script.Run(t, "testdata/*.txt", func(t *testing.T) script.Handler {
		p := &player{
			t: t, now: time.Unix(1e9, 0), sizes: make(map[string]Size), loads: make(map[string]Load),
			last: make(map[string]Effect), models: make(map[string]Model),
		}
		p.m = New(scriptConfig, nil, 0, p.now)
		return p.play
	})
}

var scriptConfig = Config{Name: "gpu-0", Total: 16 * hbm.PageBytes, KVReserve: 0.25}

// player runs the events of a script.
type player struct {
	t      *testing.T
	m      *Memory
	now    time.Time
	words  []string
	named  map[string]string
	sizes  map[string]Size   // by lease; sizes of the last load
	loads  map[string]Load   // by lease
	last   map[string]Effect // last job by lease and kind, with its attempt
	models map[string]Model  // in memory
}

func (p *player) play(line []string) []string {
	p.words, p.named = nil, make(map[string]string)
	for _, w := range line[1:] {
		if name, value, ok := strings.Cut(w, "="); ok {
			p.named[name] = value
		} else {
			p.words = append(p.words, w)
		}
	}
	if line[0] == "wait" {
		d, err := time.ParseDuration(p.word(0))
		if err != nil {
			p.t.Fatal(err)
		}
		p.now = p.now.Add(d)
		return nil
	}
	var out []string
	for _, e := range p.event(line[0]) {
		p.note(e)
		out = append(out, format(e))
	}
	return append(out, p.summary())
}

// note records the parts of an effect that later events of the script refer to.
func (p *player) note(e Effect) {
	switch e := e.(type) {
	case Load:
		p.loads[e.Spec.Lease] = e
	case AskShrink:
		p.last[e.Lease+" shrink"] = e
	case Resize:
		p.last[e.Lease+" resize"] = e
	case Allocate:
		p.last[e.Lease+" allocate"] = e
	}
}

func (p *player) event(name string) []Effect {
	m, lease, now := p.m, p.word(0), p.now
	failure, failed := p.failure()
	switch name {
	case "load":
		return p.load(lease)
	case "inspected":
		if failed {
			return m.InspectFailed(lease, failure, now)
		}
		return m.Inspected(lease, p.sizes[lease], now)
	case "loaded":
		if failed {
			return m.LoadFailed(lease, failure, now)
		}
		l := p.loads[lease]
		p.models[lease] = Model{
			Lease: lease, Size: p.sizes[lease], Blocks: l.Blocks, BlockBytes: hbm.PageBytes,
			AdapterPages: l.Spec.AdapterPages, Revision: p.named["found"], Deploy: l.Spec.Deploy,
		}
		return m.Loaded(p.models[lease], now)
	case "unload":
		return m.UnloadAsked(p.request(), lease, now)
	case "unload-all":
		return m.UnloadAll(now)
	case "freed":
		if failed {
			return m.FreeFailed(lease, failure, now)
		}
		delete(p.models, lease)
		return m.Freed(lease, 1, now)
	case "report":
		return m.Reported(replicaOf(lease), lease, Report{
			Blocks: p.count(p.word(1)), MinBlocks: p.number("min"), WantedBlocks: p.number("wants"),
			Priority: p.number("priority"),
		}, now)
	case "tick":
		return m.Tick(p.health(), now)
	case "restart":
		var models []Model
		for _, model := range p.models {
			models = append(models, model)
		}
		p.m = New(scriptConfig, models, m.attempt+1000, now)
		return nil
	}
	return p.attempted(name, lease, failure, failed)
}

// attempted runs an event that belongs to an attempt.
func (p *player) attempted(name, lease string, failure Failure, failed bool) []Effect {
	m, now, late := p.m, p.now, uint64(p.number("late"))
	switch name {
	case "shrunk":
		ask, _ := p.last[lease+" shrink"].(AskShrink)
		if why, ok := p.named["kept"]; ok {
			return m.ShrinkRefused(replicaOf(lease), lease, ask.Attempt-late, why, now)
		}
		return m.Shrunk(replicaOf(lease), lease, ask.Attempt-late, now)
	case "timeout":
		ask, _ := p.last[lease+" shrink"].(AskShrink)
		return m.Timer(lease, ask.Attempt-late, now)
	case "resized":
		job, _ := p.last[lease+" resize"].(Resize)
		if failed {
			return m.NotResized(lease, job.Attempt-late, failure, now)
		}
		if model, ok := p.models[lease]; ok && late == 0 {
			model.Blocks = job.Blocks
			p.models[lease] = model
		}
		return m.Resized(lease, job.Attempt-late, job.Blocks, now)
	case "adapters":
		return m.AdaptersAsked(p.request(), lease, p.number("pages"), now)
	case "allocated":
		job, _ := p.last[lease+" allocate"].(Allocate)
		if failed {
			return m.NotAllocated(lease, job.Attempt-late, failure, now)
		}
		if model, ok := p.models[lease]; ok && late == 0 {
			model.AdapterPages = job.Pages
			p.models[lease] = model
		}
		return m.Allocated(lease, job.Attempt-late, job.Pages, now)
	}
	p.t.Fatalf("unknown event %s", name)
	return nil
}

func (p *player) load(lease string) []Effect {
	spec := Spec{
		Lease: lease, Path: "p", AdapterPages: p.number("adapters"), Revision: p.named["revision"],
		Deploy: uint64(p.number("deploy")),
	}
	weights, blocks, least := p.orElse("weights", 2), p.orElse("blocks", 8), p.orElse("min", 2)
	p.sizes[lease] = sizeOf(weights, 0, least, blocks)
	return p.m.LoadAsked(p.request(), spec, p.health(), p.now)
}

// sizeOf returns a size given in pages, with blocks of one page.
func sizeOf(weights, workspace, least, most int) Size {
	page := func(n int) int64 { return int64(n) * hbm.PageBytes }
	return Size{
		Need:    hbm.Need{Fixed: page(weights + workspace), Min: page(least), MinAlone: page(1), Max: page(most)},
		Weights: page(weights), Workspace: page(workspace), BlockBytes: hbm.PageBytes, MaxBlocks: most,
		MaxAdapters: 2, PagesPerAdapter: 1,
	}
}

func replicaOf(lease string) Actor { return Actor{ID: "replica-" + lease} }

func (p *player) word(i int) string {
	if i < len(p.words) {
		return p.words[i]
	}
	return ""
}

func (p *player) request() Request { return Request{ID: p.word(1), From: Actor{ID: "asker"}} }

func (p *player) count(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

func (p *player) number(name string) int { return p.orElse(name, 0) }

func (p *player) orElse(name string, otherwise int) int {
	if text, ok := p.named[name]; ok {
		return p.count(text)
	}
	return otherwise
}

func (p *player) health() quarantine.State {
	for _, w := range p.words {
		for h := quarantine.Quarantined; h <= quarantine.Lost; h++ {
			if w == h.String() {
				return h
			}
		}
	}
	return quarantine.Healthy
}

func (p *player) failure() (Failure, bool) {
	cause, ok := p.named["fault"]
	f := Failure{Detail: errors.New(cause).Error(), Found: p.named["found"]}
	f.Cause = map[string]Cause{
		"memory": OutOfMemory, "revision": RevisionDiffers, "lost": DeviceLost, "unsupported": Unsupported,
	}[cause]
	return f, ok
}

// format returns the type of an effect and its relevant fields.
func format(e Effect) string {
	switch e := e.(type) {
	case Inspect:
		return "Inspect{" + e.Spec.Lease + "}"
	case Load:
		return fmt.Sprintf("Load{%s with %d blocks}", e.Spec.Lease, e.Blocks)
	case AnswerLoad:
		return fmt.Sprintf("AnswerLoad{%s: %s with %d blocks, adopted %v, took %v}", e.To.ID, e.Model.Lease,
			e.Model.Blocks, e.Adopted, e.Took)
	case RefuseLoad:
		return fmt.Sprintf("RefuseLoad{%s: %s}", e.To.ID, refusal(e.Refusal))
	case ModelRefused:
		return fmt.Sprintf("ModelRefused{%s: %s}", e.Lease, refusal(e.Refusal))
	case AnswerUnload:
		return fmt.Sprintf("AnswerUnload{%s: %d bytes of %s}", e.To.ID, e.Bytes, e.Lease)
	case RefuseUnload:
		return fmt.Sprintf("RefuseUnload{%s: %s}", e.To.ID, refusal(e.Refusal))
	case AnswerAdapters:
		return fmt.Sprintf("AnswerAdapters{%s: %d pages for %s}", e.To.ID, e.Pages, e.Lease)
	case RefuseAdapters:
		return fmt.Sprintf("RefuseAdapters{%s: %s}", e.To.ID, refusal(e.Refusal))
	case AskShrink:
		return fmt.Sprintf("AskShrink{%s to %d blocks, attempt %d}", e.Lease, e.Blocks, e.Attempt)
	case NotifyReplica:
		return fmt.Sprintf("NotifyReplica{%s has %d}", e.Lease, e.Blocks)
	}
	return strings.TrimPrefix(fmt.Sprintf("%T%+v", e, e), "device.")
}

func refusal(r Refusal) string {
	text := r.Reason.String()
	if r.Detail != "" {
		text += ", " + r.Detail
	}
	if r.Found != "" {
		text += ", found " + r.Found
	}
	if r.RetryAfter > 0 {
		text += fmt.Sprintf(", retry after %v", r.RetryAfter)
	}
	return text
}

// summary returns the leases and their pages.
func (p *player) summary() string {
	text := "="
	for _, h := range p.m.sorted() {
		text += fmt.Sprintf(" %s %s", h.lease, h.phase)
		if h.kv.state > Steady {
			text += " " + h.kv.state.String()
		}
		if h.adapters.state > None {
			text += ", adapters " + h.adapters.state.String()
		}
		for _, l := range p.m.ledger.Leases() {
			if l.Owner == h.lease {
				text += fmt.Sprintf(", %d %s", len(l.Pages), l.Kind)
			}
		}
		text += ";"
	}
	return text + fmt.Sprintf(" %d free", p.m.freePages())
}
