package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"

	"troupe/core/kv"
)

// curve is a policy's hit rate at each capacity.
type curve struct {
	name  string
	rates []float64
}

// result is the result of a replay.
type result struct {
	prompts, blocks, distinct int
	bound                     float64 // hit rate with room for everything
	slots                     []int
	curves                    []curve // the optimum first
	shared                    []sharedRates
}

// relative returns the mean, over all capacities, of a policy's hit rate relative to the optimum.
func (r result) relative(c curve) float64 {
	var sum float64
	for i, rate := range c.rates {
		sum += rate / r.curves[0].rates[i]
	}
	return sum / float64(len(c.rates))
}

// best returns the policy closest to the optimum over all capacities.
func (r result) best() curve {
	return slices.MaxFunc(r.curves[1:], func(a, b curve) int { return cmp.Compare(r.relative(a), r.relative(b)) })
}

// leader returns the policy with the most hits at a capacity.
func (r result) leader(i int) string {
	return slices.MaxFunc(r.curves[1:], func(a, b curve) int { return cmp.Compare(a.rates[i], b.rates[i]) }).name
}

func (r result) page() string {
	var b strings.Builder
	best := r.best()
	fmt.Fprintf(&b, `# KV tiers: which blocks to keep

Written by `+"`make bench-kv`"+`; do not edit. It replays the prompts of half an hour of a chat service
(Mooncake's conversation trace) through the tiers and policies of core/kv: %d prompts, %d blocks of 512 tokens,
%d of them distinct. A hit is a leading block of a prompt that the tier holds when the prompt arrives.
With unlimited capacity %.1f %% of the blocks are hits. The optimum is Belady's, which knows the future.

![hit rate by capacity](benchmarks-kv.svg)

| slots | share of distinct |`, r.prompts, r.blocks, r.distinct, 100*r.bound)
	for _, c := range r.curves {
		fmt.Fprintf(&b, " %s |", c.name)
	}
	b.WriteString(" best |\n| ---: | ---: |" + strings.Repeat(" ---: |", len(r.curves)) + " --- |\n")
	for i, slots := range r.slots {
		fmt.Fprintf(&b, "| %d | %.1f %% |", slots, 100*float64(slots)/float64(r.distinct))
		for _, c := range r.curves {
			fmt.Fprintf(&b, " %.2f %% |", 100*c.rates[i])
		}
		fmt.Fprintf(&b, " %s |\n", r.leader(i))
	}
	b.WriteString("\nOf the optimum, on average over these capacities:\n\n| policy | reaches |\n| --- | ---: |\n")
	for _, c := range r.curves[1:] {
		fmt.Fprintf(&b, "| %s | %.1f %% |\n", c.name, 100*r.relative(c))
	}
	fmt.Fprintf(&b, `
**%s** is closest to the optimum; the default of the tiers, %s, is **%s**.
Small capacities matter most: there, blocks that are used only once must not evict those of continuing conversations.
If most blocks fit, plain LRU is slightly better.

s3-fifo counts a block as reused after one hit. This was chosen among three variants on this same trace, which favours
its figure a little; it was not tested on another trace.
`, best.name, "`kv.DefaultPolicy`", kv.DefaultPolicy)
	r.writeSharing(&b)
	return b.String()
}

// writeSharing writes the part about two models.
func (r result) writeSharing(b *strings.Builder) {
	fmt.Fprintf(b, `
## Two models in one tier

Here each conversation belongs to one of two models, with policy %s. Blocks of two sizes share a tier slab by slab.
The sizes differ by one byte, so a difference to one size is due to the slabs only.
A size takes a slab from the other if all blocks in that slab were used before any block of its own.

| slots | one size | half each |`, kv.DefaultPolicy)
	for _, cut := range slabCounts {
		fmt.Fprintf(b, " two sizes, %d slabs |", cut)
	}
	b.WriteString("\n| ---: | ---: | ---: |" + strings.Repeat(" ---: |", len(slabCounts)) + "\n")
	for _, s := range r.shared {
		fmt.Fprintf(b, "| %d | %.2f %% | %.2f %% |", s.slots, 100*s.one, 100*s.halves)
		for _, rate := range s.slabs {
			fmt.Fprintf(b, " %.2f %% |", 100*rate)
		}
		b.WriteString("\n")
	}
}

// draw writes the plot, as SVG.
func (r result) draw(path string) error {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = "Leading blocks found, by capacity", "slots", "hit rate"
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.ConstantTicks(ticks(r.slots))
	p.Y.Min, p.Legend.Top, p.Legend.Left = 0, true, true
	p.Add(plotter.NewGrid())
	for i, c := range r.curves {
		points := make(plotter.XYs, len(c.rates))
		for j, rate := range c.rates {
			points[j] = plotter.XY{X: float64(r.slots[j]), Y: rate}
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return fmt.Errorf("plot of %s: %w", c.name, err)
		}
		line.Color, line.Dashes, line.Width = plotutil.Color(i), plotutil.Dashes(i), vg.Points(1.5)
		p.Add(line)
		p.Legend.Add(c.name, line)
	}
	p.Y.Max = math.Min(1, 1.1*r.bound)
	if err := p.Save(18*vg.Centimeter, 11*vg.Centimeter, path); err != nil {
		return fmt.Errorf("plot: %w", err)
	}
	return nil
}

func ticks(slots []int) []plot.Tick {
	all := make([]plot.Tick, len(slots))
	for i, s := range slots {
		all[i] = plot.Tick{Value: float64(s), Label: fmt.Sprint(s)}
	}
	return all
}
