package dst

import (
	"context"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/zeebo/xxh3"

	"troupe/actors/hostcache"
	"troupe/cuda"
	"troupe/engine"
	"troupe/node/hierarchy"
	"troupe/node/query"
)

var _ engine.ReadableWeights = (*weights)(nil)

// useSources lets the node load weights from other nodes, and send them there.
func (n *Node) useSources(images *hierarchy.HostCache) {
	if !n.cfg.sources {
		return
	}
	images.Plane = n.plane
	n.gpus.UseOtherNodes(&hostcache.OtherNodes{System: n.system, Plane: n.plane, Log: n.cfg.Log,
		Peers: func() (all []hostcache.Peer) {
			for _, m := range n.live() {
				if m.GetName() != n.cfg.Name {
					pid := actor.NewPID(m.GetAddress(), query.HostCache)
					all = append(all, hostcache.Peer{Node: m.GetName(), PID: pid})
				}
			}
			return all
		}})
}

// Header implements engine.ReadableWeights.
func (w *weights) Header() *engine.Image {
	return &engine.Image{
		Path: w.path, Digests: w.Digests(), Info: w.Info(), Weights: w.device.Info().Weights, Files: filesOf(),
		Sums: partsOf(),
	}
}

// OpenParts implements engine.ReadableWeights.
func (w *weights) OpenParts(context.Context) (engine.WeightsParts, error) {
	memory := make([]byte, weightBytes)
	writeWeights(w.path, memory)
	return &weightsParts{w, imageOf(w, memory)}, nil
}

// weightsParts reads weights on a device. The parts of a device take as long as those of host memory.
type weightsParts struct {
	*weights
	image *engine.Image
}

// Image implements engine.WeightsParts.
func (p *weightsParts) Image() *engine.Image { return p.image }

// Close implements engine.PartsFile.
func (p *weightsParts) Close() error { return nil }

// ReadPart implements engine.ImageReader.
func (p *weightsParts) ReadPart(ctx context.Context, part int, into []byte) error {
	l, s := p.loader, p.image.Sums[part]
	if err := l.faults.wait(ctx, l.LoadTime/imageSpeed/imageParts, &l.faults.hangReads); err != nil {
		return err
	}
	if l.faults.take(&l.faults.failReads) {
		return errRead
	}
	if err := p.device.(*Device).get(into, p.at.Offset(s.Offset)); err != nil {
		return err
	}
	if xxh3.Hash(into) != s.Sum {
		return &engine.DamagedImage{Path: p.path, Offset: s.Offset}
	}
	return nil
}

// CopyPart implements engine.PartCopier.
func (p *weightsParts) CopyPart(ctx context.Context, part int, to cuda.Device, at cuda.Ptr, into []byte) (bool, error) {
	if err := p.ReadPart(ctx, part, into); err != nil {
		return false, err
	}
	err := to.(*Device).put(at, into)
	return err == nil, err
}

// get copies memory of the device to host memory, and put the other way round.
func (d *Device) get(to []byte, from cuda.Ptr) error {
	return d.access(from, len(to), func(offset int, b []byte) { copy(to[offset:], b) })
}

func (d *Device) put(to cuda.Ptr, from []byte) error {
	return d.access(to, len(from), func(offset int, b []byte) { copy(b, from[offset:]) })
}
