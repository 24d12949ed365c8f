package dst

import (
	"context"
	"time"

	"troupe/actors/supervise"
	"troupe/core/kv"
	"troupe/engine/kvstore"
)

// diskStore is a kvstore.File whose accesses take time. The time passes before a read, and before and
// after a write, while no lock is held, since a goroutine that waits for a lock stops the world.
type diskStore struct {
	*kvstore.File
	disk    *disk
	handle  *diskHandle
	runtime supervise.Runtime
}

// crash ends the access of a node that crashes.
func (s *diskStore) crash() { s.disk.crash(s.handle) }

// wait lets the time of an access pass, if ctx does not end before.
func (s *diskStore) wait(ctx context.Context, usual time.Duration) error {
	select {
	case <-s.runtime.After(s.disk.delay(usual)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Depth implements kvstore.Store. Blocks are copied one after the other, so that their order is that
// of the caller.
func (s *diskStore) Depth() int { return 1 }

// Write implements kvstore.Store.
func (s *diskStore) Write(ctx context.Context, slot int32, h kv.Hash, block []byte) error {
	return s.Fill(ctx, slot, h, len(block), func(into []byte) error { copy(into, block); return nil })
}

// Fill implements kvstore.Store.
func (s *diskStore) Fill(ctx context.Context, slot int32, h kv.Hash, bytes int, from func([]byte) error) error {
	if err := s.wait(ctx, diskWriteTime); err != nil {
		return err
	}
	err := s.File.Fill(ctx, slot, h, bytes, from)
	_ = s.wait(context.Background(), diskWriteTime) // the context does not end the write
	return err
}

// Read implements kvstore.Store.
func (s *diskStore) Read(ctx context.Context, slot int32, h kv.Hash, block []byte) error {
	return s.View(ctx, slot, h, len(block), func(read []byte) error { copy(block, read); return nil })
}

// View implements kvstore.Store.
func (s *diskStore) View(ctx context.Context, slot int32, h kv.Hash, bytes int, use func([]byte) error) error {
	return s.ViewRange(ctx, &kvstore.Reading{Slot: slot, Hash: h, Bytes: bytes}, 0, bytes, use)
}

// ViewRange implements kvstore.Store.
func (s *diskStore) ViewRange(ctx context.Context, r *kvstore.Reading, from, to int, use func([]byte) error) error {
	if err := s.wait(ctx, diskReadTime); err != nil {
		return err
	}
	return s.File.ViewRange(ctx, r, from, to, use)
}

// Erase implements kvstore.Store.
func (s *diskStore) Erase(ctx context.Context, slots []int32) error {
	if err := s.wait(ctx, diskWriteTime); err != nil {
		return err
	}
	err := s.File.Erase(ctx, slots)
	_ = s.wait(context.Background(), diskWriteTime)
	return err
}

// serialArena is an Arena whose blocks are copied one after the other.
type serialArena struct{ *kvstore.Arena }

// Depth implements kvstore.Store.
func (serialArena) Depth() int { return 1 }
