package kvstore

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// TestSlowDisk: a read returns when its context ends and its memory is not written afterwards, and
// other reads proceed while buffers are free.
func TestSlowDisk(t *testing.T) { synctest.Test(t, testSlowDisk) }

func testSlowDisk(t *testing.T) {
	f, _ := open(t, FileConfig{Path: filepath.Join(t.TempDir(), "tier"), Slabs: cut(1, 2, testBytes), Depth: 2})
	if err := f.Write(t.Context(), 0, testHash(0), content(0, testBytes)); err != nil {
		t.Fatal(err)
	}
	d := &faulty{Disk: f.disk, came: make(chan struct{}, 3), slow: make(chan struct{})}
	f.disk = d
	got := make([]byte, testBytes)
	for range 2 {
		ctx, leave := context.WithCancel(t.Context())
		go func() { <-d.came; leave() }()
		if err := f.Read(ctx, 0, testHash(0), got); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	}
	for i, do := range []func(context.Context) error{
		func(ctx context.Context) error { return f.Write(ctx, 1, testHash(1), content(1, testBytes)) },
		func(ctx context.Context) error { return f.Erase(ctx, []int32{0}) },
		func(ctx context.Context) error { return f.Read(ctx, 0, testHash(0), got) },
	} {
		ctx, end := context.WithTimeout(t.Context(), time.Millisecond)
		if err := do(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%d, with the disk busy: %v", i, err)
		}
		end()
	}
	close(d.slow)
	if err := f.Read(t.Context(), 0, testHash(0), make([]byte, testBytes)); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if !bytes.Equal(got, make([]byte, testBytes)) {
		t.Error("memory of a cancelled read was written")
	}
}

// TestReadWhileUsing: a block that is being verified or used does not block the next disk access.
func TestReadWhileUsing(t *testing.T) {
	f, _ := open(t, FileConfig{Path: filepath.Join(t.TempDir(), "tier"), Slabs: cut(1, 2, testBytes), Depth: 1})
	defer f.Close()
	for n := range 2 {
		if err := f.Write(t.Context(), int32(n), testHash(n), content(n, testBytes)); err != nil {
			t.Fatal(err)
		}
	}
	err := f.View(t.Context(), 0, testHash(0), testBytes, func(first []byte) error {
		return f.View(t.Context(), 1, testHash(1), testBytes, func(second []byte) error {
			if !bytes.Equal(first, content(0, testBytes)) || !bytes.Equal(second, content(1, testBytes)) {
				t.Error("the second block changed the first")
			}
			return nil
		})
	})
	if err != nil {
		t.Error(err)
	}
}
