package cost

import (
	"math"
	"time"
)

// Form says how the terms of Steps make up the time of a step.
type Form string

// Forms; see the package comment.
const (
	Sum Form = "sum"
	Max Form = "max"
)

// Steps are the costs of the steps of a model on a device, in microseconds. No term is negative.
type Steps struct {
	Form             Form    `yaml:"form"`
	FixedUS          float64 `yaml:"fixed_us"`
	PromptTokenUS    float64 `yaml:"prompt_token_us"`
	DecodeSequenceUS float64 `yaml:"decode_sequence_us"`
	PromptPairUS     float64 `yaml:"prompt_pair_us"`
	ContextTokenUS   float64 `yaml:"context_token_us"`
	WeightsUS        float64 `yaml:"weights_us"` // reading all weights; 0 in Sum
}

// Time returns how long a step takes. A step without tokens takes no time.
func (s Steps) Time(step Step) time.Duration {
	if step.Prompt <= 0 && step.Decode <= 0 {
		return 0
	}
	return microseconds(s.micros(step))
}

func (s Steps) micros(step Step) float64 {
	compute, memory := s.compute(step), s.memory(step)
	if s.Form == Max {
		return s.FixedUS + max(compute, memory)
	}
	return s.FixedUS + compute + memory
}

// compute returns the microseconds of arithmetic. The conversions keep the compiler from fusing
// operations, so that the result is the same on all processors.
func (s Steps) compute(step Step) float64 {
	return float64(float64(step.Prompt)*s.PromptTokenUS) + float64(float64(step.Decode)*s.DecodeSequenceUS) +
		float64(step.pairs()*s.PromptPairUS)
}

// memory returns the microseconds of reading weights and context.
func (s Steps) memory(step Step) float64 {
	return s.WeightsUS + float64(float64(step.Context)*s.ContextTokenUS)
}

// microseconds converts to a duration. One that is too long for a Duration is the longest there is.
func microseconds(us float64) time.Duration {
	ns := math.Round(us * 1e3)
	if ns >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(ns)
}
