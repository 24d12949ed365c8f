package device

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"troupe/core/hbm"
	"troupe/core/quarantine"
	"troupe/core/residency"
	"troupe/testkit/script"
)

// TestScripts runs testdata/*.txt on a device of 16 pages, of which a quarter is reserved for KV
// blocks. A model needs weights=2 pages and has at most blocks=8 blocks of one page, at least
// min=2. The events are:
//
//	load LEASE REQUEST [weights=N] [graphs=N] [blocks=N] [min=N] [adapters=N] [revision=X] [deploy=N]
//	     [incarnation=N] [from=ACTOR] [quarantined | lost]
//	inspected LEASE [fault=CAUSE] [is=X]     is: the revision of the files, if it is known
//	weights N [fault=CAUSE] [found=X]        copy N was loaded
//	opened LEASE [fault=CAUSE]               as the last Open of the lease requested it
//	loaded LEASE [fault=CAUSE] [found=X]     the weights were loaded, if they were being loaded, and the lease opened
//	unload LEASE REQUEST [spare | drop], unload-all
//	evict MODEL REQUEST                      all: those of all models
//	released N [fault=CAUSE]                 copy N was freed
//	freed LEASE [fault=CAUSE]
//	report LEASE BLOCKS [min=N] [wants=N] [priority=N] [standby]
//	shrunk LEASE [kept=WHY] [late=N]         answers the last AskShrink, or one N attempts earlier
//	timeout LEASE [late=N]
//	resized LEASE [fault=CAUSE] [late=N]
//	adapters LEASE REQUEST [pages=N]
//	allocated LEASE [fault=CAUSE] [late=N]
//	pool LEASE PAGES [wants=N] [used=N] [shrinks] [quarantined | lost]
//	gave LEASE [late=N]                      answers the last AskPool, or one N attempts earlier
//	pool-timeout LEASE [late=N]
//	changed LEASE [pages=N] [fault=CAUSE] [late=N]    pages: after the last ChangePages, if not as requested
//	restart                                  with the models that were loaded
//	tick [quarantined | lost], wait 1s
//
// CAUSE is memory, revision, lost, unsupported or other. The effects are followed by the leases.
func TestScripts(t *testing.T) {
	script.Run(t, "testdata/*.txt", func(t *testing.T) script.Handler {
		p := &player{
			t: t, now: time.Unix(1e9, 0), sizes: make(map[string]Size), opens: make(map[string]Open),
			last: make(map[string]Effect), models: make(map[string]Model),
			contents: make(map[uint64]residency.Content),
		}
		p.m = New(scriptConfig, nil, nil, 0, p.now)
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
	opens  map[string]Open   // by lease
	last   map[string]Effect // last job by lease and kind, with its attempt
	models map[string]Model  // in memory

	contents map[uint64]residency.Content // of the copies in memory
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
	case Open:
		p.opens[e.Spec.Lease] = e
	case AskShrink:
		p.last[e.Lease+" shrink"] = e
	case Resize:
		p.last[e.Lease+" resize"] = e
	case Allocate:
		p.last[e.Lease+" allocate"] = e
	case AskPool:
		p.last[e.Lease+" recall"] = e
	case ChangePages:
		p.last[e.Lease+" change"] = e
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
		return m.Inspected(lease, p.sizes[lease], Files{Revision: p.named["is"], Layout: "f32"}, now)
	case "weights":
		return p.weights(uint64(p.count(lease)), failure, failed)
	case "released":
		if failed {
			return m.WeightsNotFreed(uint64(p.count(lease)), now)
		}
		return m.WeightsFreed(uint64(p.count(lease)), now)
	case "evict":
		return m.EvictAsked(p.request(), strings.TrimPrefix(lease, "all"), p.word(1) == "park", now)
	case "opened":
		return p.opened(lease, failure, failed)
	case "loaded":
		var effects []Effect
		if h := m.holders[lease]; h != nil && h.phase == Loading {
			if effects = p.weights(h.copy, failure, failed); failed {
				return effects
			}
		}
		for _, e := range effects {
			p.note(e)
		}
		return append(effects, p.opened(lease, failure, failed)...)
	case "unload":
		return m.UnloadAsked(p.request(), lease, p.fate(), now)
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
			Priority: p.number("priority"), Standby: slices.Contains(p.words, "standby"),
		}, now)
	case "pool":
		return m.PoolReported(poolOf(lease), lease, PoolReport{
			Pages: p.count(p.word(1)), Wanted: p.number("wants"), Used: p.number("used"),
			Shrinks: slices.Contains(p.words, "shrinks"),
		}, p.health(), now)
	case "tick":
		return m.Tick(p.health(), now)
	case "restart":
		var models []Model
		for _, model := range p.models {
			models = append(models, model)
		}
		copies := slices.DeleteFunc(m.weights.Copies(),
			func(c residency.Copy) bool { return c.State < residency.Resident })
		p.m = New(scriptConfig, models, copies, m.attempt+1000, now)
		clear(p.opens)
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
			model.AdapterPages, model.AdapterMin = job.Pages, job.Min
			p.models[lease] = model
		}
		return m.Allocated(lease, job.Attempt-late, job.Pages, now)
	case "gave":
		ask, _ := p.last[lease+" recall"].(AskPool)
		return m.PoolShrunk(poolOf(lease), lease, ask.Attempt-late, now)
	case "pool-timeout":
		ask, _ := p.last[lease+" recall"].(AskPool)
		return m.PoolTimer(lease, ask.Attempt-late, now)
	case "changed":
		return p.changed(lease, late, failure, failed)
	}
	p.t.Fatalf("unknown event %s", name)
	return nil
}

// changed reports the end of a change of the pages for adapters.
func (p *player) changed(lease string, late uint64, failure Failure, failed bool) []Effect {
	job, _ := p.last[lease+" change"].(ChangePages)
	model, ok := p.models[lease]
	if !failed {
		model.AdapterPages = p.orElse("pages", job.Pages)
	}
	if ok && late == 0 {
		p.models[lease] = model
	}
	if failed {
		return p.m.PagesNotChanged(lease, job.Attempt-late, model.AdapterPages, failure, p.now)
	}
	return p.m.PagesChanged(lease, job.Attempt-late, model.AdapterPages, p.now)
}

// weights reports the end of the load of a copy.
func (p *player) weights(copy uint64, failure Failure, failed bool) []Effect {
	if failed {
		return p.m.WeightsFailed(copy, failure, p.now)
	}
	p.contents[copy] = residency.Content{Revision: p.named["found"]}
	return p.m.WeightsLoaded(copy, p.contents[copy], p.now)
}

// opened reports that a lease was opened.
func (p *player) opened(lease string, failure Failure, failed bool) []Effect {
	if failed {
		return p.m.LoadFailed(lease, failure, p.now)
	}
	o, open := p.opens[lease]
	model := Model{
		Lease: lease, Copy: o.Copy, Owner: o.Owner, Size: p.sizes[lease], Blocks: o.Blocks, BlockBytes: hbm.PageBytes,
		AdapterPages: o.Spec.AdapterPages, AdapterMin: o.Spec.AdapterPages,
		Revision: p.contents[o.Copy].Revision, Deploy: o.Spec.Deploy,
	}
	if open {
		p.models[lease] = model
	}
	return p.m.Loaded(model, p.now)
}

func (p *player) fate() residency.Fate {
	switch p.word(2) {
	case "spare":
		return residency.Spare
	case "drop":
		return residency.Drop
	case "park":
		return residency.Park
	case "park-or-keep":
		return residency.ParkOrKeep
	}
	return residency.Keep
}

func (p *player) load(lease string) []Effect {
	spec := Spec{
		Lease: lease, Path: "p", Model: lease[:1], AdapterPages: p.number("adapters"), Revision: p.named["revision"],
		Deploy: uint64(p.number("deploy")), Started: uint64(p.number("incarnation")),
	}
	weights, blocks, least := p.orElse("weights", 2), p.orElse("blocks", 8), p.orElse("min", 2)
	p.sizes[lease] = sizeOf(weights, 0, least, blocks).withGraphs(p.number("graphs"))
	r := p.request()
	if from, ok := p.named["from"]; ok {
		r.From.ID = from
	}
	return p.m.LoadAsked(r, spec, p.health(), p.now)
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

// withGraphs adds the pages of graphs.
func (s Size) withGraphs(pages int) Size {
	s.Graphs = int64(pages) * hbm.PageBytes
	s.Need.Fixed += s.Graphs
	return s
}

func poolOf(lease string) Actor { return Actor{ID: "pool-" + lease} }

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
	case LoadWeights:
		return fmt.Sprintf("LoadWeights{%d for %s}", e.Copy, e.Source.Model)
	case FreeWeights:
		park := ""
		if e.Park {
			park = ", to park revision " + e.Source.Revision
		}
		if e.OrKeep {
			park += " or keep it"
		}
		return fmt.Sprintf("FreeWeights{Copy:%d%s}", e.Copy, park)
	case Open:
		return fmt.Sprintf("Open{%s with %d blocks, weights %d}", e.Spec.Lease, e.Blocks, e.Copy)
	case WeightsEvicted:
		return fmt.Sprintf("WeightsEvicted{%d: %s}", e.Copy.Number, e.Why)
	case AnswerLoad:
		shared := map[bool]string{true: ", weights shared"}[e.Shared]
		return fmt.Sprintf("AnswerLoad{%s: %s with %d blocks, adopted %v, took %v%s}", e.To.ID, e.Model.Lease,
			e.Model.Blocks, e.Adopted, e.Took, shared)
	case RefuseLoad:
		return fmt.Sprintf("RefuseLoad{%s: %s}", e.To.ID, refusal(e.Refusal))
	case ModelRefused:
		return fmt.Sprintf("ModelRefused{%s: %s}", e.Lease, refusal(e.Refusal))
	case AnswerUnload:
		return fmt.Sprintf("AnswerUnload{%s: %d bytes of %s}", e.To.ID, e.Bytes, e.Lease)
	case RefuseEvict:
		return fmt.Sprintf("RefuseEvict{%s: %s}", e.To.ID, refusal(e.Refusal))
	case AnswerEvict:
		return fmt.Sprintf("AnswerEvict{%s}", e.To.ID)
	case RefuseUnload:
		return fmt.Sprintf("RefuseUnload{%s: %s}", e.To.ID, refusal(e.Refusal))
	case AnswerAdapters:
		return fmt.Sprintf("AnswerAdapters{%s: %d pages for %s}", e.To.ID, e.Pages, e.Lease)
	case RefuseAdapters:
		return fmt.Sprintf("RefuseAdapters{%s: %s}", e.To.ID, refusal(e.Refusal))
	case AskShrink:
		return fmt.Sprintf("AskShrink{%s to %d blocks, attempt %d}", e.Lease, e.Blocks, e.Attempt)
	case Allocate:
		return fmt.Sprintf("Allocate{%d pages for %s, at least %d, attempt %d}", e.Pages, e.Lease, e.Min, e.Attempt)
	case AskPool:
		return fmt.Sprintf("AskPool{%s to %d pages, attempt %d}", e.Lease, e.Pages, e.Attempt)
	case NotifyPool:
		return fmt.Sprintf("NotifyPool{%s has %d pages, attempt %d}", e.Lease, e.Pages, e.Attempt)
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
	for _, c := range p.m.weights.Copies() {
		text += fmt.Sprintf(" weights %d %s", c.Number, c.State)
		if c.State >= residency.Resident {
			text += " " + c.Level().String()
		}
		for _, u := range c.Users {
			text += " " + u.Lease
		}
		text += fmt.Sprintf(", %d pages;", c.Pages())
	}
	return text + fmt.Sprintf(" %d free", p.m.freePages())
}
