package node_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"troupe/cuda"
	"troupe/cuda/host"
	"troupe/cuda/telemetry"
	"troupe/node"
)

// watched is a software device that counts the bytes that are copied to it from the host, and can be
// held: while hold is locked, no kernel starts.
type watched struct {
	cuda.Device
	cuda.VirtualMemory
	bytes atomic.Int64
	hold  sync.RWMutex
}

func openWatched(t *testing.T) *watched {
	t.Helper()
	d, err := host.Open(host.Config{MemoryBytes: 256 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return &watched{Device: d, VirtualMemory: d.(cuda.VirtualMemory)}
}

func (d *watched) GPU() node.GPU { return node.GPU{Device: d, Source: telemetry.Device(d.Device)} }

func (d *watched) NewStream(name string) (cuda.Stream, error) {
	s, err := d.Device.NewStream(name)
	if err != nil {
		return nil, err
	}
	return watchedStream{s, s.(cuda.BatchCopier), d}, nil
}

type watchedStream struct {
	cuda.Stream
	cuda.BatchCopier
	device *watched
}

func (s watchedStream) CopyIn(dst cuda.Ptr, src []byte) error {
	s.device.bytes.Add(int64(len(src)))
	return s.Stream.CopyIn(dst, src)
}

func (s watchedStream) CopyBatch(all []cuda.Transfer) error {
	for _, c := range all {
		if c.Src == 0 {
			s.device.bytes.Add(int64(len(c.Host)))
		}
	}
	return s.BatchCopier.CopyBatch(all)
}

func (s watchedStream) Launch(op cuda.Op) error {
	s.device.hold.RLock()
	defer s.device.hold.RUnlock()
	return s.Stream.Launch(op)
}
