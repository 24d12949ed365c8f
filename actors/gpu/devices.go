package gpu

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/core/loadsource"
	"troupe/cuda"
	"troupe/engine"
	"troupe/engine/residency"
	"troupe/messages"
)

const (
	readTimeout = 2 * time.Second
	// maxReaders bounds the devices that one load may read.
	maxReaders = 2
)

// Device is a device that has weights.
type Device struct {
	Name   string
	PID    *actor.PID
	Models *residency.Store
}

// Devices finds weights on the devices of a node, and asks their actors for permission to read them. It is
// safe for concurrent use, and implements residency.Devices.
type Devices struct {
	System *actor.ActorSystem
	All    []Device
	Log    zerolog.Logger
}

func (d Device) source() string { return string(loadsource.Device) + " " + d.Name }

// Find implements residency.Devices.
func (d *Devices) Find(revision string, on cuda.Info) (*engine.Image, string) {
	for _, one := range d.All {
		if i := one.Models.FindWeights(revision, on); i != nil {
			return i, one.source()
		}
	}
	return nil, ""
}

// List implements residency.Devices.
func (d *Devices) List(revision string, on cuda.Info, except *residency.Store) (all []residency.NamedDevice) {
	for _, one := range d.All {
		if one.Models != except && one.Models.FindWeights(revision, on) != nil {
			all = append(all, residency.NamedDevice{Name: one.source(), Models: one.Models})
		}
	}
	return all
}

// Loaded implements residency.Devices.
func (d *Devices) Loaded() (all []residency.LoadedWeights) {
	for _, one := range d.All {
		all = append(all, one.Models.Loaded()...)
	}
	return all
}

// Open implements residency.Devices. It opens those that are expected to be fastest.
func (d *Devices) Open(ctx context.Context, revision string, on cuda.Info, except *residency.Store,
) (all []residency.ImageSource) {
	have := slices.DeleteFunc(slices.Clone(d.All), func(one Device) bool {
		return one.Models == except || one.Models.FindWeights(revision, on) == nil
	})
	slices.SortStableFunc(have, func(a, b Device) int {
		return cmp.Compare(except.SpeedFrom(b.source(), b.Models), except.SpeedFrom(a.source(), a.Models))
	})
	for _, one := range have {
		if len(all) == maxReaders || ctx.Err() != nil {
			break
		}
		if r, err := d.open(ctx, one, revision, on); err == nil {
			all = append(all, r)
		} else {
			d.Log.Info().Err(err).Str("gpu", one.Name).Msg("weights on another device are not read")
		}
	}
	return all
}

func (d *Devices) open(ctx context.Context, from Device, revision string, on cuda.Info) (residency.ImageSource, error) {
	image := from.Models.FindWeights(revision, on)
	if image == nil {
		return nil, errors.New("the weights have left the device")
	}
	answer, err := supervise.Request(d.System.Root, from.PID,
		&messages.ReadWeights{RevisionDigest: revision, Layout: image.Info.WeightLayout}, readTimeout).Result()
	result, ok := answer.(*messages.ReadWeightsResult)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, errors.New("the device does not answer")
	case result.GetRefused() != nil:
		return nil, errors.New(result.GetRefused().GetDetail())
	}
	return from.Models.ReadWeights(ctx, result.GetReader(), residency.SourceName{
		Of: loadsource.Device, Named: from.source(),
	})
}
