package kvstore

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"troupe/cuda"
	"troupe/cuda/host"
)

const (
	restoreLayers = 6
	restoreLayer  = sector + 100 // bytes; pieces and layers end at different offsets
	restoreBytes  = restoreLayers * restoreLayer
)

// layered are blocks in memory that record the order in which their parts arrive.
type layered struct {
	mu    sync.Mutex
	all   [][]byte
	parts []int // offset of each copy
}

func (l *layered) BlockBytes() int                           { return restoreBytes }
func (l *layered) Layers() int                               { return restoreLayers }
func (l *layered) Read(context.Context, int32, []byte) error { return errGone }
func (l *layered) Mark() (cuda.Event, error)                 { return done{}, nil }

func (l *layered) ReadPart(context.Context, int32, int, []byte) error { return errGone }

func (l *layered) Write(ctx context.Context, block int32, from []byte) error {
	return l.WritePart(ctx, block, 0, from, func() {})
}

func (l *layered) WritePart(_ context.Context, block int32, at int, from []byte, queued func()) error {
	l.mu.Lock()
	copy(l.all[block][at:], from)
	l.parts = append(l.parts, at)
	l.mu.Unlock()
	queued()
	return nil
}

// done is a completed event.
type done struct{}

func (done) Done() bool  { return true }
func (done) Sync() error { return nil }

// restoreStores returns a store of each kind with the same six blocks.
func restoreStores(t *testing.T) []Store {
	d, err := host.Open(host.Config{MemoryBytes: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	memory, err := d.AllocHost(6 * 8 * sector)
	if err != nil {
		t.Fatal(err)
	}
	f, _ := open(t, FileConfig{Path: filepath.Join(t.TempDir(), "tier"), Slabs: cut(1, 6, restoreBytes)})
	t.Cleanup(func() { _ = f.Close() })
	stores := []Store{NewArena(memory, 6*8*sector), f}
	for _, s := range stores {
		for i := range int32(6) {
			if err := s.Write(t.Context(), i, testHash(int(i)), content(int(i), restoreBytes)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return stores
}

// TestLayerRestore: the blocks before a damaged or missing one are restored intact, and a layer
// passes only once it is correct in every block. Without damage, all layers pass.
func TestLayerRestore(t *testing.T) {
	stores := restoreStores(t)
	rapid.Check(t, func(t *rapid.T) {
		into := &layered{all: make([][]byte, 6)}
		all := make([]BlockRestore, rapid.IntRange(1, 6).Draw(t, "blocks"))
		hurt := len(all)
		if rapid.Bool().Draw(t, "damaged") {
			hurt = rapid.IntRange(0, len(all)-1).Draw(t, "damage")
		}
		for i := range all {
			into.all[i] = make([]byte, restoreBytes)
			all[i] = BlockRestore{
				From: rapid.IntRange(RemoteSource, 1).Draw(t, "store"),
				Move: Move{Block: int32(i), Slot: int32(i), Hash: testHash(i)},
			}
		}
		torn := 0 // offset from which the damaged block differs
		if hurt < len(all) {
			torn = rapid.IntRange(0, restoreBytes-1).Draw(t, "byte")
			arena := stores[0].(*Arena)
			if all[hurt].From != RemoteSource {
				all[hurt].From = 0
				arena.block(int32(hurt), restoreBytes)[torn] ^= 1
				defer func() { arena.block(int32(hurt), restoreBytes)[torn] ^= 1 }()
			}
		}
		var came []int
		r := NewLayerRestore(
			into,
			stores,
			all,
			rapid.IntRange(1, restoreLayers).Draw(t, "parts"),
			func(n int) { came = append(came, n) },
		)
		order := rapid.Permutation(slices.Collect(func(yield func(int) bool) {
			for i := range r.Parts() * len(all) {
				if all[i%len(all)].From == RemoteSource && !yield(i) {
					return
				}
			}
		})).Draw(t, "chunks")
		passed, wrong := 0, false // layers
		var step sync.WaitGroup
		step.Go(func() {
			for passed < restoreLayers && !wrong {
				ready, next, err := r.Pass(context.Background(), passed)
				if err != nil {
					return
				}
				into.mu.Lock()
				from, to := passed*restoreLayer, min(next*restoreLayer, restoreBytes)
				for i := range all {
					wrong = wrong || ready == nil ||
						!bytes.Equal(into.all[i][from:to], content(i, restoreBytes)[from:to])
				}
				into.mu.Unlock()
				passed = next
			}
		})
		step.Go(func() {
			for _, chunk := range order {
				i, part := chunk%len(all), chunk/len(all)
				from, to := part*r.PartBytes(), min((part+1)*r.PartBytes(), restoreBytes)
				if i == hurt && from <= torn && torn < to {
					r.Fail(i, ErrDamaged)
				} else if err := r.PutPart(
					context.Background(), i, part, content(i, restoreBytes)[from:to]); err != nil {
					t.Errorf("part %d of block %d: %v", part, i, err)
				}
			}
		})
		r.Run(context.Background())
		step.Wait()
		err := r.Err()
		switch {
		case wrong:
			t.Fatal("a layer passed before every block had it")
		case hurt == len(all) && (err != nil || passed < restoreLayers || len(came) != r.Parts()):
			t.Fatalf("undamaged: %v, layer %d, parts %v", err, passed, came)
		case hurt < len(all) && (!errors.Is(err, ErrDamaged) || passed >= restoreLayers):
			t.Fatalf("damaged: %v, layer %d", err, passed)
		}
		if !slices.IsSorted(came) {
			t.Fatalf("parts opened as %v", came)
		}
		for i := range all {
			if i < hurt && (!all[i].Done || !bytes.Equal(into.all[i], content(i, restoreBytes))) {
				t.Fatalf("block %d of %d was not restored: %v", i, hurt, all[i].Err)
			}
			if i == hurt && (all[i].Done || all[i].From != RemoteSource && !errors.Is(all[i].Err, ErrDamaged)) {
				t.Fatalf("the damaged block %d was restored: %v", i, all[i].Err)
			}
		}
	})
}

// TestRestoreByLayers: with few blocks, the first layers of all are restored before the second of
// any.
func TestRestoreByLayers(t *testing.T) {
	into := &layered{all: [][]byte{make([]byte, restoreBytes)}}
	r := NewLayerRestore(
		into,
		restoreStores(t)[1:],
		[]BlockRestore{{Move: Move{Hash: testHash(0)}}},
		restoreLayers,
		func(int) {},
	)
	if r.Run(t.Context()); r.Err() != nil || len(into.parts) != restoreLayers || !slices.IsSorted(into.parts) {
		t.Errorf("copies began at %v, %v", into.parts, r.Err())
	}
}

// TestPassEnds: Pass returns when its context ends.
func TestPassEnds(t *testing.T) {
	r := NewLayerRestore(&layered{}, nil, make([]BlockRestore, 1), 1, func(int) {})
	ctx, end := context.WithCancel(t.Context())
	end()
	if _, _, err := r.Pass(ctx, 0); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
