package replica

import (
	"slices"
	"time"

	"troupe/core/batch"
	"troupe/core/kv"
)

const (
	eos       = 99
	testBlock = 4 // tokens per block
)

// driver carries out effects as the replica's actor does: it advances the machine. It also holds
// one restore.
type driver struct {
	m    *Machine
	now  time.Time
	out  []Effect     // effects of the last event, including those that followed from it
	see  func(Effect) // called for each effect; may be nil
	held restore
	// restoring starts the next sequence that waits on blocks that are still being filled.
	restoring bool
	// ending ends the restore between two steps; complete tells whether all blocks were restored.
	ending, complete bool
	// manual means that the test grants turns. Otherwise the replica has the device to itself.
	manual  bool
	granted uint64 // last turn
}

// restore is a restore of the first blocks of a sequence that has started on them.
type restore struct {
	id     string
	blocks []int32
}

var epoch = time.Unix(1e9, 0)

func newDriver(cfg Config) *driver {
	cfg.Name, cfg.Model, cfg.BlockTokens, cfg.StepTokens, cfg.Incarnation = "m-0", "m", testBlock, 32, 1
	return &driver{m: New(cfg), now: epoch}
}

// do carries out the effects of an event.
func (d *driver) do(effects []Effect) {
	for _, e := range effects {
		if d.out = append(d.out, e); d.see != nil {
			d.see(e)
		}
		switch e.(type) {
		case Advance, StepEnded:
			d.advance()
		case AskTurn:
			if !d.manual {
				d.granted++
				d.do(d.m.Granted(d.granted, true, d.now))
			}
		}
	}
}

func (d *driver) advance() {
	if d.do(d.m.Advance(0, d.now)); !d.m.MayPlan() {
		return
	}
	if d.ending {
		d.endRestore(d.complete)
	}
	if d.do(d.m.Release()); !d.m.MayPlan() {
		return
	}
	if d.restoring {
		d.restoring = !d.startRestore()
	}
	d.do(d.m.Plan(d.now))
}

// startup reports the events that lead to Serving.
func (d *driver) startup(model Model) {
	d.do(d.m.Start(d.now))
	d.do(d.m.Loaded(model, d.now))
	d.do(d.m.Adopted(nil, d.now))
	d.do(d.m.EngineReady(0, Capture{}, d.now))
}

// submission returns a sequence whose prompt is 0, 1, and so on. Its output continues these
// numbers.
func submission(id string, prompt, output, most int, adapter string) *Submission {
	tokens := make([]uint32, prompt+output)
	for i := range tokens {
		tokens[i] = uint32(i)
	}
	s := &Submission{Request: batch.Request{ID: id, Class: batch.Standard, Root: kv.Root("m", adapter, nil),
		Prompt: tokens[:prompt], Output: tokens[prompt:], MaxOutput: most, Stops: []uint32{eos}, Client: id[:1]}}
	if adapter != "" {
		s.Request.Adapter = adapter
		s.Adapter = Adapter{Requested: nameOf(adapter), Name: nameOf(adapter), Key: adapter, HasPath: true, Given: true}
	}
	return s
}

// tokens returns the tokens of the step in flight. Each token equals its position.
func (d *driver) tokens() (all []uint32) {
	for _, e := range d.m.current.entries {
		if e.Sample {
			all = append(all, uint32(e.Position+len(e.Tokens)))
		}
	}
	return all
}

func (d *driver) stepDone(notFinite ...int) {
	d.do(d.m.StepDone(d.m.current.step, d.tokens(), notFinite, d.now))
}

// startRestore starts the first waiting sequence on blocks that are still being filled. It reports
// whether there was one.
func (d *driver) startRestore() bool {
	if d.held.id != "" {
		return false
	}
	id, hashes, ok := d.m.batch.PeekWaiting()
	if have := d.m.pool.Match(hashes); !ok || have > 0 || len(hashes) == 0 || !d.m.batch.Hold(id) {
		return false
	}
	r := restore{id: id}
	for range hashes {
		if b, ok := d.m.pool.Allocate(); ok {
			r.blocks = append(r.blocks, b)
		}
	}
	if len(r.blocks) < len(hashes) || !d.m.batch.StartRestoring(id, r.blocks, 0) {
		d.m.pool.Release(r.blocks)
		d.m.batch.Resume(id)
		return false
	}
	d.held = r
	return true
}

// endRestore ends the restore. It must be called between two steps.
func (d *driver) endRestore(complete bool) {
	if d.ending = false; d.held.id == "" {
		return
	}
	p, _ := d.m.batch.Progress(d.held.id)
	switch {
	case p.Restoring && complete:
		d.m.batch.RestoreDone(d.held.id)
	case p.Restoring:
		d.m.batch.RestoreFailed(d.held.id)
	}
	d.m.pool.Release(d.held.blocks)
	d.m.batch.Resume(d.held.id)
	d.held = restore{}
}

// abort aborts the step in flight at its first gate, if there is one.
func (d *driver) abort() []Effect {
	at := slices.IndexFunc(d.m.current.entries, func(e batch.Entry) bool { return e.Restoring })
	if at < 0 || !d.m.InFlight() {
		return nil
	}
	if p, _ := d.m.batch.Progress(d.m.current.entries[at].ID); !p.Restoring {
		return nil
	}
	return d.m.StepAborted(d.m.current.step, at, "late", d.now)
}
