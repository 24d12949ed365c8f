// Package selftest tests a device: it checks that memory is unchanged after copies in, within and
// out, and measures their speed.
//
// The test hangs if the device hangs, so run it in a goroutine that nothing waits for without a
// timeout.
package selftest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"troupe/cuda"
)

const (
	size  = 8 << 20 // what the test copies, at most
	share = 128     // of the memory of the device: the test copies at most 1/128
)

// Run allocates memory, copies a pattern in, within and out, and compares. It frees everything. If
// the device is lost, Run first tries to reopen it; nothing else may use the device then. A simulated device
// has no bytes to compare, and passes.
func Run(ctx context.Context, d cuda.Device) error {
	if d.Info().Ledger {
		return nil
	}
	if lost, err := cuda.As[cuda.Reopener](d); err == nil {
		if err := lost.Reopen(); err != nil {
			return fmt.Errorf("self-test: %w", err)
		}
	}
	b, err := open(d, min(size, d.Info().MemoryBytes/share))
	if err != nil {
		return err
	}
	pattern := b.host.Bytes()[:b.bytes]
	back := b.host.Bytes()[b.bytes:]
	for i := range pattern {
		pattern[i] = byte(i*31 ^ i>>8)
	}
	for _, step := range []func() error{
		func() error { return b.stream.CopyIn(b.at, pattern) },
		func() error { return b.stream.Copy(b.at.Offset(b.bytes), b.at, b.bytes) },
		func() error { return b.stream.CopyOut(back, b.at.Offset(b.bytes)) },
		b.stream.Sync,
		ctx.Err,
		func() error {
			if !bytes.Equal(pattern, back) {
				return fmt.Errorf("device %d: memory changed between copy in and copy out", d.Info().Index)
			}
			return nil
		},
	} {
		if err := step(); err != nil {
			return errors.Join(fmt.Errorf("self-test: %w", err), b.close())
		}
	}
	return b.close()
}

// Speeds are copy bandwidths in bytes per second. Each byte counts once.
type Speeds struct{ In, Out, Within float64 }

// Bandwidth measures copies of the given size each way, sequentially on one stream, and returns the
// best of the rounds.
func Bandwidth(ctx context.Context, d cuda.Device, each int64, rounds int) (best Speeds, err error) {
	b, err := open(d, each)
	if err != nil {
		return best, err
	}
	in, out := b.host.Bytes()[:b.bytes], b.host.Bytes()[b.bytes:]
	clear(in) // allocate the pages: all unwritten ones share the zero page
	for range rounds {
		for _, way := range []struct {
			best *float64
			copy func() error
		}{
			{&best.In, func() error { return b.stream.CopyIn(b.at, in) }},
			{&best.Within, func() error { return b.stream.Copy(b.at.Offset(b.bytes), b.at, b.bytes) }},
			{&best.Out, func() error { return b.stream.CopyOut(out, b.at.Offset(b.bytes)) }},
		} {
			began := time.Now()
			if err := errors.Join(way.copy(), b.stream.Sync(), ctx.Err()); err != nil {
				return best, errors.Join(fmt.Errorf("bandwidth: %w", err), b.close())
			}
			*way.best = max(*way.best, float64(b.bytes)/time.Since(began).Seconds())
		}
	}
	return best, b.close()
}

// bench is a stream and memory of twice the copy size, on the device and page-locked on the host.
type bench struct {
	device cuda.Device
	bytes  int64
	at     cuda.Ptr
	host   cuda.HostMemory
	stream cuda.Stream
}

// open takes less memory than requested if the device has less.
func open(d cuda.Device, each int64) (*bench, error) {
	free, _ := d.Memory()
	b := &bench{device: d, bytes: min(each, free/4)}
	var err error
	if b.at, err = d.Alloc(2 * b.bytes); err != nil {
		return nil, fmt.Errorf("self-test: %w", err)
	}
	if b.host, err = d.AllocHost(2 * b.bytes); err != nil {
		return nil, errors.Join(fmt.Errorf("self-test: %w", err), b.close())
	}
	if b.stream, err = d.NewStream("self-test"); err != nil {
		return nil, errors.Join(fmt.Errorf("self-test: %w", err), b.close())
	}
	return b, nil
}

func (b *bench) close() (err error) {
	if b.stream != nil {
		err = b.stream.Close()
	}
	if b.host != nil {
		err = errors.Join(err, b.host.Free())
	}
	return errors.Join(err, b.device.Free(b.at))
}
