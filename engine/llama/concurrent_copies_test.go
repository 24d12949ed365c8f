package llama_test

import (
	"bytes"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"troupe/cuda/host"
)

// TestReadsAndWritesOverlap checks that a write runs while two reads are in flight, and that all
// content is correct.
func TestReadsAndWritesOverlap(t *testing.T) {
	begun, end := make(chan struct{}, 2), make(chan struct{})
	release := sync.OnceFunc(func() { close(end) })
	device, err := host.Open(host.Config{MemoryBytes: 1 << 30, Inject: func(op string) error {
		if op == "copy out" {
			begun <- struct{}{}
			<-end
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	r := newReplicaOn(t, device)
	t.Cleanup(release)
	size := r.blocks.BlockBytes()
	memory, err := device.AllocHost(int64(5 * size))
	if err != nil {
		t.Fatal(err)
	}
	part := func(i int) []byte { return memory.Bytes()[i*size : (i+1)*size] }
	for i := range 3 {
		for at := range part(i) {
			part(i)[at] = byte(i + at*7)
		}
	}
	for i := range 2 {
		if err := r.blocks.Write(t.Context(), int32(i), part(i)); err != nil {
			t.Fatal(err)
		}
	}
	came := make(chan error, 3)
	for i := range 2 {
		go func() { came <- r.blocks.Read(t.Context(), int32(i), part(3+i)) }()
	}
	for range 2 {
		<-begun // hangs if reads run one at a time
	}
	go func() { came <- r.blocks.Write(t.Context(), 2, part(2)) }()
	for i := range 3 {
		if err := <-came; err != nil { // hangs if a write waits for reads
			t.Error(err)
		}
		if i == 0 {
			release()
		}
	}
	if !bytes.Equal(memory.Bytes()[:2*size], memory.Bytes()[3*size:]) {
		t.Error("the blocks read differ from the blocks written")
	}
}

// TestMarkFollowsEarlierWrites checks that a mark is done only after all writes queued before it,
// on any stream.
func TestMarkFollowsEarlierWrites(t *testing.T) {
	begun, end := make(chan struct{}, 2), make(chan struct{}, 2)
	var held atomic.Bool
	device, err := host.Open(host.Config{MemoryBytes: 1 << 30, Inject: func(op string) error {
		if op == "copy in" && held.Load() {
			begun <- struct{}{}
			<-end
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	r := newReplicaOn(t, device)
	size := r.blocks.BlockBytes()
	memory, err := device.AllocHost(int64(size))
	if err != nil {
		t.Fatal(err)
	}
	held.Store(true)
	came := make(chan error, 2)
	for i := range 2 {
		go func() { came <- r.blocks.Write(t.Context(), int32(i), memory.Bytes()) }()
		<-begun
	}
	mark, err := r.blocks.Mark()
	if err != nil {
		t.Fatal(err)
	}
	end <- struct{}{}
	if err := <-came; err != nil {
		t.Error(err)
	}
	for range 1000 { // give an early mark time to show
		runtime.Gosched()
	}
	if mark.Done() {
		t.Error("a mark is done before an earlier copy")
	}
	end <- struct{}{}
	if err := errors.Join(<-came, mark.Sync()); err != nil {
		t.Error(err)
	}
}
