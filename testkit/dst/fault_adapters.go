package dst

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Faults and operator actions that concern adapters.
const (
	BreakFiles    FaultKind = "break-files"    // the files of an adapter on Node are in State
	Register      FaultKind = "register"       // an operator registers other files for an adapter
	DeleteAdapter FaultKind = "delete-adapter" // an operator deletes an adapter, and registers it after For
	PinAdapter    FaultKind = "pin-adapter"    // an operator pins an adapter, and unpins it after For
)

var fileStates = []FileState{FilesMissing, FilesDamaged, FilesSlow, FilesHang}

// drawAdapters fills in a fault that concerns adapters.
func (f *Fault) drawAdapters(rng *rand.Rand, span func(least, most time.Duration) time.Duration) {
	switch f.Kind {
	case BreakFiles, Register, DeleteAdapter, PinAdapter:
		f.Model = models[rng.IntN(len(models))].name
		f.Adapter = adapterNames[rng.IntN(len(adapterNames))]
	default:
		return
	}
	switch f.Kind {
	case BreakFiles:
		f.State = fileStates[rng.IntN(len(fileStates))]
		f.For = span(time.Second, 15*time.Second)
	case DeleteAdapter:
		f.For = span(500*time.Millisecond, 5*time.Second)
	case PinAdapter:
		f.For = span(time.Second, 10*time.Second)
	}
}

// injectAdapters injects a fault that concerns adapters.
func (c *cluster) injectAdapters(f Fault, later func(func())) {
	switch f.Kind {
	case BreakFiles:
		files := c.adapterFiles[f.Node]
		files.set(adapterFolder(f.Model, f.Adapter), f.State)
		later(func() { files.set(adapterFolder(f.Model, f.Adapter), "") })
	case Register:
		c.register(f.Model, f.Adapter)
	case DeleteAdapter:
		c.operator.deleteAdapter(f.Model, f.Adapter)
		later(func() { c.register(f.Model, f.Adapter) })
	case PinAdapter:
		c.operator.pinAdapter(f.Model, f.Adapter, true)
		later(func() { c.operator.pinAdapter(f.Model, f.Adapter, false) })
	}
}

// loadExplained reports whether the faults explain that a load failed for a call: they broke the files
// of its adapter, or failed a load of a model.
func (c *cluster) loadExplained(call *Call) bool {
	return slices.ContainsFunc(c.result.Faults, func(f Fault) bool {
		return f.Kind == FailLoads || f.Kind == BreakFiles && (f.State == FilesMissing || f.State == FilesDamaged) &&
			f.Model == call.Sequence.GetModel() && f.Adapter == call.Sequence.GetAdapter()
	})
}
