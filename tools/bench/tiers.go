package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"troupe/core/kv"
	"troupe/cuda"
	"troupe/cuda/host"
	"troupe/engine"
	"troupe/engine/kvstore"
	"troupe/engine/llama"
	"troupe/engine/residency"
)

const (
	tierTokens = 512 // per block: 1.5 MiB, as large as 16 tokens of an 8B model
	tierBlocks = 64
	tierRounds = 15
	tierDepth  = 8 // concurrent reads and writes of a file

	stepRounds = 41
	stepReps   = 30 // steps per round
)

func kvTiers() (section, error) {
	s := section{
		title: "KV tiers",
		how: fmt.Sprintf("Offload and restore as in a replica: %d blocks of %d KiB between a device and a tier, with "+
			"all checksums, compared to bare copies of the same size, alternating. For DRAM these are "+
			"copies of the device to and from the same page-locked memory on one stream. For NVMe they "+
			"are O_DIRECT writes and reads of a file on the same disk, %d at once from and into as many "+
			"buffers, without a device. The data is not zero, and all memory was written before. A tier "+
			"copies on two streams per direction, which use two cores on the software device, and an "+
			"offload checksums data that is still in the CPU cache. If other work uses one of two cores, "+
			"the checksums add to the time of the copies; the CPU time shows how much. A restore from "+
			"NVMe has a limit of its own, which is shown too: on a disk that uses CPU time, even a bare "+
			"read is slower if its bytes are checksummed. The step decodes %d sequences on a device that "+
			"leaves one core to others. Time to first token is that of a request over HTTP. Where a step "+
			"overlaps with a restore, it is that of restore and step alone, for a synthetic model that is "+
			"nearly all KV, on a device whose computation uses the same cores as the copies and "+
			"checksums.", tierBlocks, tierTokens*3, tierDepth, streams),
	}
	dir, err := os.MkdirTemp("", "troupe-bench")
	if err != nil {
		return s, err
	}
	defer os.RemoveAll(dir)
	for _, measure := range []func(dir string) ([]row, error){tierCopies, stepsBeside, firstTokens, overlapped} {
		rows, err := measure(dir)
		if err != nil {
			return s, err
		}
		s.rows = append(s.rows, rows...)
	}
	return s, nil
}

// kvDevice is a device with KV blocks, and page-locked memory of the same size.
type kvDevice struct {
	device cuda.Device
	store  *residency.Store
	blocks *residency.BlockCopier
	memory cuda.HostMemory
}

func newKVDevice(workers, blockTokens, blocks int) (s *kvDevice, err error) {
	s = &kvDevice{}
	if s.device, err = host.Open(host.Config{MemoryBytes: 1 << 30, Workers: workers}); err != nil {
		return nil, err
	}
	s.store = residency.NewStore(s.device, llama.Loader{})
	spec := engine.LoadSpec{
		Lease: "bench", Path: model, BlockTokens: blockTokens, KVBlocks: blocks,
		Limits: engine.Limits{StepTokens: 512, MaxSequences: 64},
	}
	if _, err = s.store.Load(context.Background(), spec); err != nil {
		return nil, err
	}
	if s.blocks, err = s.store.OpenBlocks("bench"); err != nil {
		return nil, err
	}
	s.memory, err = s.device.AllocHost(int64(blocks * s.blocks.BlockBytes()))
	return s, err
}

func (s *kvDevice) close() error { return errors.Join(s.blocks.Close(), s.device.Close()) }

// fill writes to all of the page-locked memory and to all blocks. Reads of unwritten memory would
// hit the cached zero page.
func (s *kvDevice) fill() error {
	all, size := s.memory.Bytes(), s.blocks.BlockBytes()
	noise(all)
	for i := range len(all) / size {
		if err := s.blocks.Write(context.Background(), int32(i), all[i*size:(i+1)*size]); err != nil {
			return err
		}
	}
	return nil
}

// noise fills memory with bytes that a disk cannot compress.
func noise(b []byte) {
	for at := range b {
		b[at] = byte(at * at >> 7)
	}
}

// moves returns moves of consecutive blocks, each to the slot of its number.
func moves(first, many int) []kvstore.Move {
	all := make([]kvstore.Move, many)
	for i := range all {
		all[i] = kvstore.Move{Block: int32(first + i), Slot: int32(i), Hash: kv.Root("bench", fmt.Sprint(first+i), nil)}
	}
	return all
}

func tierCopies(dir string) ([]row, error) {
	s, err := newKVDevice(0, tierTokens, tierBlocks)
	if err != nil {
		return nil, err
	}
	defer s.close()
	size := s.blocks.BlockBytes()
	file, err := kvstore.OpenFile(
		kvstore.FileConfig{
			Path:  filepath.Join(dir, "kv"),
			Slabs: kv.Slabs{Count: 1, Bytes: kv.SlotUnit + tierBlocks*(kv.SlotUnit+size)}, Depth: tierDepth,
			AllocHost: s.device.AllocHost,
		},
	)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	disk, err := openBare(filepath.Join(dir, "bare"), size)
	if err != nil {
		return nil, err
	}
	defer disk.close()
	stream, err := s.device.NewStream("bare")
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	// The address of a lease's blocks is private: bare copies use other memory of the device.
	at, err := s.device.Alloc(int64(tierBlocks * size))
	if err != nil {
		return nil, err
	}
	device := func(in bool) error {
		for i := range tierBlocks {
			place, block := at.Offset(int64(i*size)), s.memory.Bytes()[i*size:(i+1)*size]
			if in {
				err = stream.CopyIn(place, block)
			} else {
				err = stream.CopyOut(block, place)
			}
			if err != nil {
				return err
			}
		}
		return stream.Sync()
	}
	if err := errors.Join(s.fill(), device(true)); err != nil {
		return nil, err
	}
	stores := []storeCopies{
		{
			"DRAM",
			kvstore.NewArena(s.memory, tierBlocks*size),
			"the device's bare copy",
			func() error { return device(false) },
			func() error { return device(true) },
		},
		{
			"NVMe",
			file,
			"bare O_DIRECT",
			func() error { return disk.each(disk.file.WriteAt) },
			func() error { return disk.each(disk.file.ReadAt) },
		},
	}
	var rows []row
	for _, c := range stores {
		more, err := c.rows(s.blocks)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	summed, err := bandwidth(
		"a bare O_DIRECT read with checksums: bandwidth over bare O_DIRECT", size,
		func() error { return disk.each(disk.readAndSum) }, stores[1].in,
	)
	summed.aim, summed.met = "", ""
	return append(rows, summed), err
}

// storeCopies are copies to and from a tier, and bare copies.
type storeCopies struct {
	name    string
	store   kvstore.Store
	bare    string
	out, in func() error
}

func (c *storeCopies) rows(blocks *residency.BlockCopier) ([]row, error) {
	down := func() error { return kvstore.Offload(context.Background(), blocks, c.store, moves(0, tierBlocks)) }
	up := func() error { return kvstore.Restore(context.Background(), c.store, blocks, moves(0, tierBlocks)) }
	if err := errors.Join(down(), c.out()); err != nil {
		return nil, err
	}
	offload, err := bandwidth(
		fmt.Sprintf("offload to %s: bandwidth over %s", c.name, c.bare), blocks.BlockBytes(), down, c.out,
	)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(down(), up(), c.in()); err != nil { // refill what the bare copies used
		return nil, err
	}
	restore, err := bandwidth(
		fmt.Sprintf("restore from %s: bandwidth over %s", c.name, c.bare), blocks.BlockBytes(), up, c.in,
	)
	return []row{offload, restore}, err
}

// bandwidth compares two ways of copying all blocks.
func bandwidth(what string, size int, over, bare func() error) (row, error) {
	var worked, bareWorked time.Duration
	with, without, ratio, err := paired(tierRounds, working(&worked, over), working(&bareWorked, bare))
	if err != nil {
		return row{}, fmt.Errorf("%s: %w", what, err)
	}
	gigabytes := float64(tierBlocks*size) / 1e9
	return row{what, fmt.Sprintf(
		"%.2f (%.2f GB/s against %.2f; %.3f s of CPU per GB against %.3f)",
		1/ratio, gigabytes/with.Seconds(), gigabytes/without.Seconds(),
		worked.Seconds()/gigabytes/tierRounds, bareWorked.Seconds()/gigabytes/tierRounds,
	), "0.9 or more", yesNo(1/ratio >= 0.9)}, nil
}

// working adds the CPU time of f to sum.
func working(sum *time.Duration, f func() error) func() error {
	return func() error {
		began := processorTime()
		err := f()
		*sum += processorTime() - began
		return err
	}
}

// processorTime returns the CPU time of this process, or 0 if unknown.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
