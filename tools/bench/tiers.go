package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"troupe/core/kv"
	"troupe/cuda"
	"troupe/cuda/host"
	"troupe/engine"
	"troupe/engine/llama"
	"troupe/engine/tier"
)

const (
	tierTokens = 512 // of a block, so that one is as large as 16 tokens of an 8B model: 1.5 MiB
	tierBlocks = 64
	tierRounds = 15
	tierDepth  = 8 // reads and writes of a file at once

	stepRounds = 41
	stepReps   = 30 // steps in a round
)

func kvTiers() (section, error) {
	s := section{
		title: "KV tiers",
		how: fmt.Sprintf("Offload and restore as a replica does them: %d blocks of %d KiB between a device and a tier, with all checksums; against bare copies of as many bytes, in turn: for DRAM copies of the device "+
			"to and from the same page-locked memory, for NVMe O_DIRECT writes and reads of a file on the same disk, %d at once, without a device. No bytes are zeros, and all memory was written to before. "+
			"The software device copies a block with stores that pass by the cache, so its sum reads it from memory again: on one core that costs as much again as the copy, and only a core that has nothing else to do hides it. The time of CPU says so; the bandwidth depends on what else the cores do. "+
			"The step is one that decodes %d sequences on a device that leaves one core to others. Time to first token is that of a request over HTTP; where a step overlaps with a restore, that of restore and step alone, of a made-up model that is nearly all KV, on a device whose computation takes the cores that copy and sum.", tierBlocks, tierTokens*3, tierDepth, streams),
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

// shelf is a device with KV blocks, and page-locked memory for as many.
type shelf struct {
	device cuda.Device
	holder *engine.Holder
	blocks *engine.Blocks
	memory cuda.HostMemory
}

func newShelf(workers, blockTokens, blocks int) (s *shelf, err error) {
	s = &shelf{}
	if s.device, err = host.Open(host.Config{MemoryBytes: 1 << 30, Workers: workers}); err != nil {
		return nil, err
	}
	s.holder = engine.NewHolder(s.device, llama.Format{})
	spec := engine.LoadSpec{Lease: "bench", Path: model, BlockTokens: blockTokens, KVBlocks: blocks, Limits: engine.Limits{StepTokens: 512, MaxSequences: 64}}
	if _, err = s.holder.Load(context.Background(), spec); err != nil {
		return nil, err
	}
	if s.blocks, err = s.holder.Blocks("bench"); err != nil {
		return nil, err
	}
	s.memory, err = s.device.AllocHost(int64(blocks * s.blocks.BlockBytes()))
	return s, err
}

func (s *shelf) close() error { return errors.Join(s.blocks.Close(), s.device.Close()) }

// fill writes to all of the page-locked memory, and to all blocks: what was never written to is read from the processor's cache, as one page of zeros.
func (s *shelf) fill() error {
	all, size := s.memory.Bytes(), s.blocks.BlockBytes()
	noise(all)
	for i := range len(all) / size {
		if err := s.blocks.Write(context.Background(), int32(i), all[i*size:(i+1)*size]); err != nil {
			return err
		}
	}
	return nil
}

// noise fills memory with what no disk takes for zeros.
func noise(b []byte) {
	for at := range b {
		b[at] = byte(at * at >> 7)
	}
}

// moves are the ways of so many blocks from the first on, each to the slot of its number.
func moves(first, many int) []tier.Move {
	all := make([]tier.Move, many)
	for i := range all {
		all[i] = tier.Move{Block: int32(first + i), Slot: int32(i), Hash: kv.Root("bench", fmt.Sprint(first+i))}
	}
	return all
}

func tierCopies(dir string) ([]row, error) {
	s, err := newShelf(0, tierTokens, tierBlocks)
	if err != nil {
		return nil, err
	}
	defer s.close()
	size := s.blocks.BlockBytes()
	file, err := tier.OpenFile(tier.FileConfig{Path: filepath.Join(dir, "kv"), Slabs: kv.Slabs{Count: 1, Bytes: kv.SlotUnit + tierBlocks*(kv.SlotUnit+size)}, Depth: tierDepth, AllocHost: s.device.AllocHost})
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
	// The address of a lease's blocks is its own secret: bare copies use other memory of the device.
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
	var rows []row
	for _, t := range []struct {
		name    string
		store   tier.Store
		bare    string
		out, in func() error
	}{
		{"DRAM", tier.NewArena(s.memory, tierBlocks*size), "the device's bare copy", func() error { return device(false) }, func() error { return device(true) }},
		{"NVMe", file, "bare O_DIRECT", func() error { return disk.each(disk.file.WriteAt) }, func() error { return disk.each(disk.file.ReadAt) }},
	} {
		down := func() error { return tier.Down(context.Background(), s.blocks, t.store, moves(0, tierBlocks)) }
		up := func() error { return tier.Up(context.Background(), t.store, s.blocks, moves(0, tierBlocks)) }
		for _, way := range []struct {
			what       string
			over, bare func() error
		}{{"offload to ", down, t.out}, {"restore from ", up, t.in}} {
			if err := errors.Join(down(), way.bare()); err != nil {
				return nil, err
			}
			var worked, bareWorked time.Duration
			with, without, ratio, err := paired(tierRounds, working(&worked, way.over), working(&bareWorked, way.bare))
			if err != nil {
				return nil, err
			}
			gigabytes := float64(tierBlocks*size) / 1e9
			rows = append(rows, row{way.what + t.name + ": bandwidth over " + t.bare,
				fmt.Sprintf("%.2f (%.2f GB/s against %.2f; %.3f s of CPU per GB against %.3f)", 1/ratio, gigabytes/with.Seconds(), gigabytes/without.Seconds(),
					worked.Seconds()/gigabytes/tierRounds, bareWorked.Seconds()/gigabytes/tierRounds), "0.9 or more", yes(1/ratio >= 0.9)})
			if t.name == "DRAM" { // the arena's slots are where the bare copies go
				if err := down(); err != nil {
					return nil, err
				}
			}
		}
	}
	return rows, nil
}

// working adds up the time of CPU that f takes.
func working(sum *time.Duration, f func() error) func() error {
	return func() error {
		began := processorTime()
		err := f()
		*sum += processorTime() - began
		return err
	}
}

// processorTime is what this process has taken of the CPU; 0 where the system does not say.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// bareDisk is a file that is read and written past the page cache, and nothing else.
type bareDisk struct {
	file    *os.File
	size    int
	memory  []byte
	buffers [][]byte
}

func openBare(path string, size int) (_ *bareDisk, err error) {
	d := &bareDisk{size: size, buffers: make([][]byte, tierDepth)}
	if d.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_DIRECT, 0o600); err != nil {
		return nil, err
	}
	const hugePage = 2 << 20 // of which the tier's buffers are too: a disk is faster where memory is in one piece
	stride := (size + hugePage - 1) / hugePage * hugePage
	if d.memory, err = unix.Mmap(-1, 0, tierDepth*stride, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE); err != nil {
		return nil, err
	}
	_ = unix.Madvise(d.memory, unix.MADV_HUGEPAGE)
	noise(d.memory)
	for i := range d.buffers {
		d.buffers[i] = d.memory[i*stride : i*stride+size]
	}
	return d, unix.Fallocate(int(d.file.Fd()), 0, 0, int64(tierBlocks*size))
}

// each does something to every block of the file, so many at once: whoever is done takes the next, as moves of a tier do.
func (d *bareDisk) each(do func(b []byte, at int64) (int, error)) error {
	errs := make([]error, tierDepth)
	var next atomic.Int64
	var wait sync.WaitGroup
	for w := range tierDepth {
		wait.Go(func() {
			for i := next.Add(1) - 1; i < tierBlocks && errs[w] == nil; i = next.Add(1) - 1 {
				_, errs[w] = do(d.buffers[w], i*int64(d.size))
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

func (d *bareDisk) close() {
	_ = d.file.Close()
	_ = unix.Munmap(d.memory)
}
