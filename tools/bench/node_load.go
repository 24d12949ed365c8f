package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/hostcache"
	"troupe/cluster/bulk"
	core "troupe/core/hostcache"
	"troupe/cuda"
	"troupe/engine/llama"
	"troupe/engine/residency"
	"troupe/messages"
)

// nodeLoad loads an image from the host cache, or from a device, of another node. Both nodes are in this
// process, and have a data plane each.
type nodeLoad struct {
	*loader
	system   *actor.ActorSystem
	planes   [2]*bulk.Plane
	cache    *residency.HostCache
	others   *hostcache.OtherNodes
	listener net.Listener
	pid      *actor.PID // host cache of the other node
}

func newNodeLoad(l *loader) (*nodeLoad, error) {
	n, err := startNodes(l, nil)
	if err != nil {
		return nil, err
	}
	return n, n.fill()
}

// startNodes starts the host cache of the other node, which may have devices.
func startNodes(l *loader, devices residency.Devices) (n *nodeLoad, err error) {
	quiet := func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }
	n = &nodeLoad{
		loader: l, system: actor.NewActorSystem(actor.WithLoggerFactory(quiet)),
		cache: residency.NewHostCache(l.device),
	}
	for i := range n.planes {
		if n.planes[i], err = bulk.Listen(bulk.Config{Log: zerolog.Nop()}); err != nil {
			return nil, err
		}
	}
	if n.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	deployments := n.system.Root.Spawn(actor.PropsFromFunc(func(actor.Context) {}))
	n.pid = n.system.Root.Spawn(hostcache.Props(hostcache.Config{
		Images: n.cache, Budget: 2 * l.bytes, Deployments: deployments, Plane: n.planes[0], Devices: devices,
		Publish: func(string, string, string) {}, Log: zerolog.Nop(),
	}))
	n.others = &hostcache.OtherNodes{
		System: n.system, Plane: n.planes[1], Log: zerolog.Nop(),
		Peers: func() []hostcache.Peer { return []hostcache.Peer{{Node: "a", PID: n.pid}} },
	}
	return n, nil
}

// fill puts the image into the host cache of the other node.
func (n *nodeLoad) fill() error {
	answer, err := n.system.Root.RequestFuture(n.pid, &messages.UseImage{
		RevisionDigest: n.image.Digests.Revision, Layout: n.image.Info.WeightLayout, Bytes: uint64(n.bytes),
	}, time.Minute).Result()
	if err != nil {
		return err
	}
	result, ok := answer.(*messages.UseImageResult)
	if !ok || result.GetTicket() == "" {
		return fmt.Errorf("no room for the image: %v", answer)
	}
	use := n.cache.Claim(result.GetTicket())
	memory, err := use.Memory()
	if err != nil {
		return err
	}
	copy(memory, n.memory.Bytes()[:n.bytes])
	use.Filled(n.image)
	if err := use.Close(); err != nil {
		return err
	}
	key := core.Key{Digest: n.image.Digests.Revision, Layout: n.image.Info.WeightLayout}
	for range 1000 {
		if len(n.others.Open(context.Background(), key.Digest, n.device.Info())) > 0 {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return errors.New("the other node does not offer its image")
}

// load loads the image of the other node.
func (n *nodeLoad) load() error {
	sources := n.others.Open(context.Background(), n.image.Digests.Revision, n.device.Info())
	if len(sources) != 1 {
		return fmt.Errorf("%d sources", len(sources))
	}
	s := sources[0]
	all := make([]int, len(n.image.Sums))
	for i := range all {
		all[i] = i
	}
	s.Begin(all)
	w, err := (llama.Loader{}).LoadImage(context.Background(), n.device, s.Image(), nil, s)
	if err = errors.Join(err, s.Close()); err != nil {
		return err
	}
	return w.Free()
}

// bare sends the same bytes through a TCP connection, and copies them to the device.
func (n *nodeLoad) bare() error {
	failed := make(chan error, 1)
	go func() {
		conn, err := n.listener.Accept()
		if err == nil {
			_, err = conn.Write(n.memory.Bytes()[:n.bytes])
			err = errors.Join(err, conn.Close())
		}
		failed <- err
	}()
	conn, err := net.Dial("tcp", n.listener.Addr().String())
	if err != nil {
		return err
	}
	defer conn.Close()
	err = n.toDevice(func(to cuda.Ptr, s cuda.Stream) error {
		var staging [2]cuda.HostMemory
		var copied [2]cuda.Event
		for i := range staging {
			if staging[i], err = n.device.AllocHost(loadChunk); err != nil {
				return err
			}
			defer func() { _ = staging[i].Free() }()
		}
		for at, turn := int64(0), 0; at < n.bytes; at, turn = at+loadChunk, 1-turn {
			if copied[turn] != nil {
				if err := copied[turn].Sync(); err != nil {
					return err
				}
			}
			b := staging[turn].Bytes()[:min(loadChunk, n.bytes-at)]
			if _, err := io.ReadFull(conn, b); err != nil {
				return err
			}
			if err := s.CopyIn(to.Offset(at), b); err != nil {
				return err
			}
			if copied[turn], err = s.Record(); err != nil {
				return err
			}
		}
		return s.Sync()
	})
	return errors.Join(err, <-failed)
}

func (n *nodeLoad) close() {
	n.listener.Close()
	n.system.Shutdown()
	for _, p := range n.planes {
		p.Close()
	}
	_ = n.cache.Close()
}
