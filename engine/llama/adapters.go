package llama

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"troupe/core/lora"
	"troupe/cuda"
	"troupe/cuda/kernels"
	"troupe/engine"
	"troupe/modelfile/peft"
)

// shape is the shape of a projection.
type shape = peft.Projection

// projection returns the shape of a layer's projection.
func (c Config) projection(t lora.Target) shape {
	q, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	return [lora.Targets]shape{
		lora.Q: {Out: q, In: c.Hidden}, lora.K: {Out: kv, In: c.Hidden}, lora.V: {Out: kv, In: c.Hidden},
		lora.O:    {Out: c.Hidden, In: q},
		lora.Gate: {Out: c.Intermediate, In: c.Hidden}, lora.Up: {Out: c.Intermediate, In: c.Hidden},
		lora.Down: {Out: c.Hidden, In: c.Intermediate},
	}[t]
}

// OpenAdapter implements engine.AdapterLoader. It reads a PEFT folder.
func (f Loader) OpenAdapter(model, adapter string, device cuda.Info) (engine.AdapterFile, error) {
	m, err := inspect(f.Roots, model, device)
	if err != nil {
		return engine.AdapterFile{}, err
	}
	base := peft.Base{Layers: m.Layers, DType: m.tensors[0].dtype}
	for t := range lora.Targets {
		base.Projections[t] = m.projection(t)
	}
	a, err := peft.Open(f.Roots, adapter, base)
	if err != nil {
		return engine.AdapterFile{}, err
	}
	return engine.AdapterFile{
		Path: adapter, Base: a.Base, Layout: a.Layout, Rank: a.Rank, Scale: a.Scale, Read: a.Read,
	}, nil
}

// rankBytes returns the size of an adapter of rank 1 for all projections.
func (c Config) rankBytes(dtype cuda.DType) int64 {
	elements := 0
	for t := range lora.Targets {
		s := c.projection(t)
		elements += s.Out + s.In
	}
	return int64(c.Layers*elements) * dtype.Bytes()
}

// adapterBytes returns the size of a step's table entries per adapter without its pages: offsets,
// rank and scale.
func (c Config) adapterBytes() int64 { return int64(c.matrices())*8 + 4 + 4 }

// matrices returns the maximum number of matrices in an adapter.
func (c Config) matrices() int { return c.Layers * int(lora.Targets) * 2 }

// adapterTables are the tables that the LoRA kernels read, and the kernels' workspace. They are
// uploaded if a step uses an adapter that the last upload did not include. Their addresses and sizes
// are those for limits.MaxAdapters adapters, however many there are, so that graphs can use them.
type adapterTables struct {
	device   cuda.Device
	dtype    cuda.DType
	count    int // number of matrices
	limits   engine.Limits
	maxPages int // of an adapter
	staging  cuda.HostMemory
	memory   cuda.Ptr
	mid      cuda.Ptr // F32 [StepTokens, MaxRank]

	mode    LoRAMode
	current []*engine.Adapter // adapters in the tables
	present []bool            // by matrix: whether any of the current adapters has it
}

func newAdapterTables(w *Weights, limits engine.Limits) (_ *adapterTables, err error) {
	if limits.MaxRank < 1 || limits.MaxRank > peft.MaxRank {
		return nil, fmt.Errorf("adapter rank %d must be between 1 and %d", limits.MaxRank, peft.MaxRank)
	}
	a := &adapterTables{
		device: w.device, dtype: w.dtype, count: w.matrices(), limits: limits,
		maxPages: w.info.AdapterPages(limits.MaxRank), mode: w.mode,
	}
	tables := int64(limits.MaxAdapters) * (8*int64(a.maxPages) + w.adapterBytes())
	aligned := (tables + align - 1) / align * align
	if a.staging, err = w.device.AllocHost(tables); err != nil {
		return nil, err
	}
	if a.memory, err = w.device.Alloc(aligned + 4*int64(limits.StepTokens*limits.MaxRank)); err != nil {
		return nil, errors.Join(fmt.Errorf("adapter workspace: %w", err), a.staging.Free())
	}
	a.mid = a.memory.Offset(aligned)
	a.present = make([]bool, a.count)
	return a, nil
}

func (a *adapterTables) close() error { return errors.Join(a.device.Free(a.memory), a.staging.Free()) }

// matrix returns the index of a matrix in an adapter.
func matrix(m lora.Matrix) int { return (m.Layer*int(lora.Targets)+int(m.Target))*2 + int(m.Part) }

// selectAdapters sets the adapter of each row, and uploads the tables if an adapter is new.
func (e *llamaEngine) selectAdapters(batch []engine.Sequence, in *input) error {
	wanted, err := e.batchAdapters(batch)
	if err != nil || len(wanted) == 0 {
		return err
	}
	a := e.adapters
	if slices.ContainsFunc(wanted, func(w *engine.Adapter) bool { return !slices.Contains(a.current, w) }) {
		if err := a.upload(e.stream, wanted); err != nil {
			return err
		}
	}
	in.adapterRuns = a.mode.rowRuns(batch, in.n)
	rows := in.adapterRows
	for _, s := range batch {
		for i := range s.Tokens {
			rows[i] = int32(slices.Index(a.current, s.Adapter)) // -1: none
		}
		rows = rows[len(s.Tokens):]
	}
	return nil
}

// batchAdapters returns the adapters of a batch.
func (e *llamaEngine) batchAdapters(batch []engine.Sequence) ([]*engine.Adapter, error) {
	var all []*engine.Adapter
	for i, s := range batch {
		if s.Adapter == nil || slices.Contains(all, s.Adapter) {
			continue
		}
		if err := e.adapters.check(s.Adapter); err != nil {
			return nil, fmt.Errorf("llama: sequence %d: %w", i, err)
		}
		all = append(all, s.Adapter)
	}
	if len(all) > e.limits.MaxAdapters {
		return nil, fmt.Errorf("llama: %d adapters in a step, at most %d", len(all), e.limits.MaxAdapters)
	}
	return all, nil
}

// check refuses an adapter that does not fit in the tables.
func (a *adapterTables) check(adapter *engine.Adapter) error {
	switch {
	case a == nil:
		return errors.New("the engine was opened without adapters; raise max_adapters")
	case adapter.Rank < 1 || adapter.Rank > a.limits.MaxRank:
		return fmt.Errorf("adapter has rank %d; the engine supports at most %d", adapter.Rank, a.limits.MaxRank)
	case len(adapter.Pages) < adapter.Layout.Pages() || len(adapter.Pages) > a.maxPages:
		return fmt.Errorf(
			"adapter of %d pages has %d; the engine supports at most %d", adapter.Layout.Pages(),
			len(adapter.Pages), a.maxPages,
		)
	}
	return nil
}

// upload writes the tables of adapters: with n = MaxAdapters, U64 pages [n, maxPages], I64 offsets
// [matrices, n], I32 ranks [n], F32 scales [n].
func (a *adapterTables) upload(stream cuda.Stream, held []*engine.Adapter) error {
	a.current = nil // invalid until the upload succeeds
	n := a.limits.MaxAdapters
	words := unsafe.Slice((*int64)(unsafe.Pointer(unsafe.SliceData(a.staging.Bytes()))), n*(a.maxPages+a.count))
	pages, offsets := words[:n*a.maxPages], words[n*a.maxPages:]
	clear(pages)
	clear(a.present)
	tail := a.staging.Bytes()[8*len(words):]
	ranks, scales := integers(tail[:4*n]), floats(tail[4*n:8*n])
	clear(ranks)
	clear(scales)
	for i := range offsets {
		offsets[i] = -1
	}
	for i, adapter := range held {
		for j, page := range adapter.Pages {
			pages[i*a.maxPages+j] = int64(page)
		}
		for m, extent := range adapter.Layout.All() {
			if matrix(m) >= a.count {
				return fmt.Errorf("llama: adapter has layer %d, which the model lacks", m.Layer)
			}
			offsets[matrix(m)*n+i] = extent.Offset
			a.present[matrix(m)] = true
		}
		ranks[i], scales[i] = int32(adapter.Rank), adapter.Scale
	}
	if err := stream.CopyIn(a.memory, a.staging.Bytes()[:8*len(words)+8*n]); err != nil {
		return err
	}
	a.current = slices.Clone(held)
	return nil
}

// add adds the adapters' contribution to a projection, with two launches per run of rows.
func (a *adapterTables) add(l *launcher, out, rows cuda.Ptr, which lora.Matrix, in input, s shape) {
	if len(in.adapterRuns) == 0 || !in.anyAdapter && !a.present[matrix(which)] {
		return
	}
	for _, r := range in.adapterRuns {
		if r.only != nil {
			if _, has := r.only.Layout.Find(which); !has {
				continue
			}
		}
		skip := func(p cuda.Ptr, width int) cuda.Ptr { return p.Offset(4 * int64(r.from) * int64(width)) }
		n, mid := int32(r.n), skip(a.mid, a.limits.MaxRank)
		which.Part = lora.A
		l.launch(kernels.LoRAShrink{
			Mid: mid, In: skip(rows, s.In), N: n, K: int32(s.In), A: a.table(skip(in.adapters, 1), which),
		})
		which.Part = lora.B
		l.launch(kernels.LoRAExpand{
			Out: skip(out, s.Out), Mid: mid, N: n, Dim: int32(s.Out), B: a.table(skip(in.adapters, 1), which),
		})
	}
}

// table returns where the kernels find one matrix of each adapter.
func (a *adapterTables) table(rows cuda.Ptr, which lora.Matrix) kernels.LoRA {
	n := a.limits.MaxAdapters
	offsets := a.memory.Offset(8 * int64(n*a.maxPages))
	ranks := offsets.Offset(8 * int64(n*a.count))
	return kernels.LoRA{
		Rows: rows, Pages: a.memory, Offsets: offsets.Offset(8 * int64(matrix(which)*n)), Ranks: ranks,
		Scales:   ranks.Offset(4 * int64(n)),
		Adapters: int32(n), PageWidth: int32(a.maxPages), MaxRank: int32(a.limits.MaxRank), DType: a.dtype,
	}
}
