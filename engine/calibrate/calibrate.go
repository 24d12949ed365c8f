package calibrate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"

	"troupe/core/cost"
	"troupe/cuda"
	"troupe/engine"
	"troupe/engine/llama"
)

// Config describes a calibration.
type Config struct {
	Device      cuda.Device
	Peer        cuda.Device // a second device of the same kind, for copies between the two; nil: none
	Loader      llama.Loader
	Models      []string      // folders
	Scratch     string        // an empty folder on the disk that is measured
	Time        time.Duration // for all measurements; each is repeated at least leastRounds times
	Limits      engine.Limits // of steps
	BlockTokens int
	On          string // describes the machine in the profiles
	Version     string // of the program
	// Progress is called before each part, with the share of the time that has passed.
	Progress func(what string, share float64)
}

// Shares of the time, for all models together.
const (
	copiesShare   = 0.15
	stepsShare    = 0.55
	loadsShare    = 0.15
	switchesShare = 0.15
)

// Run measures the device, and each model on it. It returns a profile for each model. The costs of
// loads are fitted to the loads of all models.
func Run(ctx context.Context, c Config) ([]cost.Profile, error) {
	r := run{Config: c, ctx: ctx, began: time.Now()}
	r.origin = cost.Origin{Measured: r.began.UTC().Format(time.RFC3339), On: c.On}
	for _, path := range c.Models {
		if _, err := c.Loader.Inspect(path, c.Device.Info()); err != nil {
			return nil, err
		}
	}
	copies, err := r.copies()
	if err != nil {
		return nil, fmt.Errorf("copies: %w", err)
	}
	var all []cost.Profile
	for _, path := range c.Models {
		p, err := r.model(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		p.Copies = copies
		all = append(all, p)
	}
	loads, err := r.fitLoads()
	for i := range all {
		all[i].Loads = loads
		err = errors.Join(err, all[i].Check())
	}
	return all, err
}

// run is a calibration in progress.
type run struct {
	Config
	ctx    context.Context
	began  time.Time
	origin cost.Origin
	loads  map[string][]cost.Transfer // of all models, by source
}

// budget returns a share of the time, divided among the models.
func (r *run) budget(share float64) time.Duration {
	return time.Duration(share * float64(r.Time) / float64(max(1, len(r.Models))))
}

func (r *run) report(what string) {
	if r.Progress != nil {
		r.Progress(what, min(1, time.Since(r.began).Seconds()/r.Time.Seconds()))
	}
}

// model measures one model.
func (r *run) model(path string) (p cost.Profile, err error) {
	config, err := llama.ReadConfig(r.Loader.Roots, path)
	if err != nil {
		return p, err
	}
	info, err := r.Loader.Inspect(path, r.Device.Info())
	if err != nil {
		return p, err
	}
	on := r.Device.Info()
	model := modelOf(filepath.Base(path), config, info)
	p = cost.Profile{
		Version: cost.Version, Name: model.Name + " on " + on.Name, Model: &model,
		Device: cost.Device{
			Name: on.Name, Software: on.Simulated,
			MemoryBytes: &cost.Fact{Value: float64(on.MemoryBytes), Origin: r.origin},
		},
	}
	switches := &p.Switches
	if err := r.measureLoads(path, info, switches); err != nil {
		return p, fmt.Errorf("loads: %w", err)
	}
	steps, noise, err := r.measureSteps(path, info, switches)
	if err != nil {
		return p, fmt.Errorf("steps: %w", err)
	}
	p.Steps, p.Noise = &steps, &noise
	return p, nil
}

// modelOf describes a model by its configuration and its sizes on the device.
func modelOf(name string, c llama.Config, info engine.ModelInfo) cost.Model {
	m := cost.Model{
		Name: name, Layers: c.Layers, Hidden: c.Hidden, Intermediate: c.Intermediate, Vocab: c.Vocab, Heads: c.Heads,
		KVHeads: c.KVHeads, HeadDim: c.HeadDim, Tied: c.TiedEmbeddings, ContextTokens: c.ContextTokens,
	}
	perToken := 2 * int64(c.Layers) * int64(c.KVHeads) * int64(c.HeadDim)
	m.KVElementBytes = int(info.KVTokenBytes / perToken)
	// Biases and alignment add less than a bit to each weight.
	m.WeightBits = int(math.Round(float64(info.WeightBytes)/float64(m.Shape().Parameters()))) * 8
	return m
}

// leastRounds is how often each part is measured at least.
const leastRounds = 3

// maxRounds bounds the memory of a calibration that has much time.
const maxRounds = 1000

// part is one thing that is measured. It returns how long it took.
type part func() (time.Duration, error)

// rounds runs all parts in turn until the time is over, and at least leastRounds times. Each round
// starts with another part. It returns the times of each part.
func (r *run) rounds(what string, budget time.Duration, parts []part) ([][]time.Duration, error) {
	took := make([][]time.Duration, len(parts))
	end := time.Now().Add(budget)
	for round := 0; round < maxRounds && (round < leastRounds || time.Now().Before(end)); round++ {
		for i := range parts {
			if err := r.ctx.Err(); err != nil {
				return nil, err
			}
			r.report(what)
			at := (i + round) % len(parts)
			d, err := parts[at]()
			if err != nil {
				return nil, err
			}
			took[at] = append(took[at], d)
		}
	}
	return took, nil
}

// timed returns how long f takes.
func timed(f func() error) (time.Duration, error) {
	began := time.Now()
	err := f()
	return max(1, time.Since(began)), err
}

// quantile returns the element at the nearest rank.
func quantile(all []time.Duration, q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

func median(all []time.Duration) time.Duration { return quantile(all, 0.5) }

// duration returns the cost of a part of a switch.
func (r *run) duration(all []time.Duration) *cost.Duration {
	if len(all) == 0 {
		return nil
	}
	us := func(d time.Duration) float64 { return float64(d) / 1e3 }
	return &cost.Duration{MedianUS: us(median(all)), P95US: us(quantile(all, 0.95)), Count: len(all), Origin: r.origin}
}
