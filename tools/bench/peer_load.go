package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/gpu"
	"troupe/actors/kvblock"
	"troupe/core/loadsource"
	core "troupe/core/residency"
	"troupe/cuda"
	"troupe/cuda/host"
	"troupe/engine/llama"
	"troupe/engine/residency"
)

// peerLoad loads weights from another device of the node.
type peerLoad struct {
	*loader
	system  *actor.ActorSystem
	from    *residency.Store // the device that has the weights
	devices *gpu.Devices
	other   cuda.Device
	to      *residency.Store
	number  uint64
}

func newPeerLoad(l *loader) (p *peerLoad, err error) {
	quiet := func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }
	p = &peerLoad{
		loader: l, system: actor.NewActorSystem(actor.WithLoggerFactory(quiet)),
		from: residency.NewStore(l.device, llama.Loader{}),
	}
	if p.other, err = host.Open(host.Config{Index: 1, MemoryBytes: 2*l.bytes + 64<<20}); err != nil {
		return nil, err
	}
	if _, err := p.from.LoadWeights(context.Background(), 1, core.Source{
		Path: l.dir, Layout: l.image.Info.WeightLayout, Bytes: l.bytes,
	}, ""); err != nil {
		return nil, err
	}
	pid := p.system.Root.Spawn(gpu.Props(gpu.Config{
		Node: "node", Name: "gpu-0", Info: l.device.Info(), Models: p.from,
		HBM:     kvblock.Props(kvblock.Config{Device: "gpu-0"}),
		Publish: func(string, string, string) {}, Log: zerolog.Nop(),
	}))
	p.devices = &gpu.Devices{
		System: p.system, All: []gpu.Device{{Name: "gpu-0", PID: pid, Models: p.from}}, Log: zerolog.Nop(),
	}
	p.to = residency.NewStore(p.other, llama.Loader{})
	p.to.UseDevices(p.devices)
	return p, nil
}

// load loads the weights, which are nowhere else.
func (p *peerLoad) load() error {
	p.number++
	_, err := p.to.LoadWeights(context.Background(), p.number, core.Source{
		Path: "gone", Revision: p.image.Digests.Revision, Layout: p.image.Info.WeightLayout, Bytes: p.bytes,
	}, "")
	if err != nil {
		return err
	}
	return p.to.FreeWeights(p.number)
}

// bareStreams is the number of streams of bare copies, as a load has.
const bareStreams = 4

// bare copies as many bytes from one device to the other.
func (p *peerLoad) bare() error {
	from, err := p.device.Alloc(p.bytes)
	if err != nil {
		return err
	}
	to, err := p.other.Alloc(p.bytes)
	if err != nil {
		return err
	}
	var streams [bareStreams]cuda.Stream
	for i := range streams {
		if streams[i], err = p.other.NewStream("bare"); err != nil {
			return err
		}
	}
	for at, i := int64(0), 0; at < p.bytes && err == nil; at, i = at+loadChunk, (i+1)%bareStreams {
		var copier cuda.PeerCopier
		if copier, err = cuda.As[cuda.PeerCopier](streams[i]); err == nil {
			err = copier.CopyPeer(to.Offset(at), p.device, from.Offset(at), min(loadChunk, p.bytes-at))
		}
	}
	for _, s := range streams {
		err = errors.Join(err, s.Sync(), s.Close())
	}
	return errors.Join(err, p.device.Free(from), p.other.Free(to))
}

// nodes returns a load of the same weights from the device of another node.
func (p *peerLoad) nodes() (*nodeLoad, error) {
	n, err := startNodes(p.loader, p.devices)
	if err != nil {
		return nil, err
	}
	sources := n.others.Open(context.Background(), p.image.Digests.Revision, p.other.Info())
	if len(sources) != 1 || sources[0].Kind() != loadsource.NodeDevice {
		return nil, fmt.Errorf("%d sources that are not the device of another node", len(sources))
	}
	return n, errors.Join(sources[0].Close())
}

func (p *peerLoad) close() error {
	p.system.Shutdown()
	return errors.Join(p.other.Close(), p.from.FreeWeights(1))
}
