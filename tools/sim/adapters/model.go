package adapters

import (
	"time"

	"troupe/core/lora"
)

// Model is a base model on its GPUs as a roofline: a step takes the longer of its memory traffic
// and its arithmetic, plus a fixed time for communication between the GPUs.
type Model struct {
	Name                  string
	Parameters            float64
	Layers                int
	Hidden, KV            int // elements of a token's query and of its key
	GPUs                  float64
	Bandwidth, Arithmetic float64 // achieved per GPU: bytes and operations per second
	Fixed                 time.Duration
	Link                  float64 // bytes per second from host memory
	PerLoad               time.Duration
}

// H100 SXM with 80 GB: 80 % of 3.35 TB/s, and half of 989 TFLOP/s in BF16.
const (
	bandwidth  = 0.8 * 3.35e12
	arithmetic = 0.5 * 989e12
)

var (
	llama70B = Model{
		Name: "Llama 70B in BF16 on 8 H100", Parameters: 70.6e9, Layers: 80, Hidden: 8192, KV: 1024, GPUs: 8,
		Bandwidth: bandwidth, Arithmetic: arithmetic, Fixed: 2400 * time.Microsecond, Link: 55e9,
		PerLoad: 20 * time.Microsecond,
	}
	llama7B = Model{
		Name: "Llama 7B in BF16 on one H100", Parameters: 6.74e9, Layers: 32, Hidden: 4096, KV: 4096, GPUs: 1,
		Bandwidth: bandwidth, Arithmetic: arithmetic, Link: 55e9, PerLoad: 20 * time.Microsecond,
	}
	// For these only the memory of adapters is simulated, not steps.
	llama8B = Model{Name: "Llama 8B", Layers: 32, Hidden: 4096, KV: 1024}
	kjv     = Model{Name: "kjv-2m", Layers: 6, Hidden: 192, KV: 64}
)

// Layout returns the layout of an adapter for the attention projections, with 2 bytes per element.
func (m Model) Layout(rank int) *lora.Layout {
	l := &lora.Layout{}
	for layer := range m.Layers {
		for target, shape := range [][2]int{
			lora.Q: {m.Hidden, m.Hidden}, lora.K: {m.KV, m.Hidden}, lora.V: {m.KV, m.Hidden},
			lora.O: {m.Hidden, m.Hidden},
		} {
			l.Add(lora.Matrix{Layer: layer, Target: lora.Target(target), Part: lora.A}, int64(2*rank*shape[1]))
			l.Add(lora.Matrix{Layer: layer, Target: lora.Target(target), Part: lora.B}, int64(2*rank*shape[0]))
		}
	}
	return l
}

// step returns the duration of a step that computes tokens, reads tokens of context and bytes of
// adapters.
func (m Model) step(tokens, context int, adapters int64) time.Duration {
	bytes := 2*m.Parameters + float64(context)*float64(m.Layers*m.KV*2*2) + float64(adapters)
	memory := bytes / (m.GPUs * m.Bandwidth)
	compute := 2 * m.Parameters * float64(tokens) / (m.GPUs * m.Arithmetic)
	return m.Fixed + seconds(max(memory, compute))
}

// load returns the duration of an adapter's copy, once the link is free.
func (m Model) load(bytes int64) time.Duration { return m.PerLoad + seconds(float64(bytes)/m.Link) }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
