package engine

import "troupe/core/utilization"

// WorkCounter is an Engine that can count the work of its steps.
type WorkCounter interface {
	Engine
	// Work returns the arithmetic that the model asks for in a step over the batch, and the least bytes that the step
	// moves in device memory. It does not depend on how the engine runs the step.
	Work(batch []Sequence) utilization.Work
}

// WorkOf returns the work of a step; zero: the engine does not count it.
func WorkOf(e Engine, batch []Sequence) utilization.Work {
	if c, ok := e.(WorkCounter); ok {
		return c.Work(batch)
	}
	return utilization.Work{}
}
