package dst

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"troupe/core/kv"
	"troupe/engine/kvstore"
)

const (
	diskReadTime  = 200 * time.Microsecond // of a block
	diskWriteTime = time.Millisecond       // of a block; for as long, a crash may tear it
	diskSlowTime  = 300 * time.Millisecond // of a block, while the disk is slow
)

// DiskState is the state of a node's disk. The zero value means that it works.
type DiskState string

// States of disks.
const (
	DiskSlow     DiskState = "slow"
	DiskNoReads  DiskState = "no-reads"  // reads fail
	DiskNoWrites DiskState = "no-writes" // writes fail after a part of them
	DiskFull     DiskState = "full"
)

var errDisk = errors.New("input/output error")

// disk is the disk of one node. It keeps its content when the node crashes.
type disk struct {
	mu     sync.Mutex
	rng    *rand.Rand
	bytes  []byte
	state  DiskState
	recent []diskWrite // the latest last
}

// diskWrite is a write, and what it has replaced.
type diskWrite struct {
	at       int64
	replaced []byte
	when     time.Time
}

// recentWrites is the number of writes of which bit damage picks one.
const recentWrites = 64

// newDisk returns an empty disk.
func newDisk(seed, node uint64) *disk {
	cfg := kvstore.FileConfig{Slabs: kv.CutSlabs(diskBytes)}
	return &disk{rng: rand.New(rand.NewPCG(seed, 1000+node)), bytes: make([]byte, cfg.Bytes())}
}

// open opens the KV tier on the disk for a node that starts, as kvstore.OpenFile does with a file.
func (d *disk) open(node string) (*diskStore, error) {
	h := &diskHandle{disk: d}
	f, err := kvstore.OpenDisk(kvstore.FileConfig{Path: "disk of " + node, Slabs: kv.CutSlabs(diskBytes), Depth: 1}, h)
	if err != nil {
		return nil, err
	}
	return &diskStore{File: f, disk: d, handle: h}, nil
}

// set changes the state of the disk.
func (d *disk) set(state DiskState) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.state = state
}

// delay returns the duration of an access that otherwise takes usual.
func (d *disk) delay(usual time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.state == DiskSlow {
		return diskSlowTime
	}
	return usual
}

// damage flips bits of blocks that were written lately.
func (d *disk) damage(bits int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for range bits {
		if len(d.recent) == 0 {
			return
		}
		w := d.recent[d.rng.IntN(len(d.recent))]
		d.bytes[w.at+d.rng.Int64N(int64(len(w.replaced)))] ^= 1 << d.rng.IntN(8)
	}
}

// crash ends the access of a node that crashes. Of each sector of a write in progress, the disk has
// either the old or the new content.
func (d *disk) crash(h *diskHandle) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h.dead = true
	for i := len(d.recent) - 1; i >= 0 && time.Since(d.recent[i].when) < diskWriteTime; i-- {
		w := d.recent[i]
		for at := 0; at < len(w.replaced); at += kv.SlotUnit {
			if d.rng.IntN(2) == 0 {
				copy(d.bytes[w.at+int64(at):], w.replaced[at:at+kv.SlotUnit])
			}
		}
	}
}

// diskHandle is the access of one node, from its start to its crash. It implements kvstore.Disk.
type diskHandle struct {
	disk *disk
	dead bool
}

// ReadAt implements kvstore.Disk.
func (h *diskHandle) ReadAt(b []byte, at int64) (int, error) {
	d := h.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case h.dead || d.state == DiskNoReads:
		return 0, errDisk
	case at+int64(len(b)) > int64(len(d.bytes)):
		return 0, io.EOF
	}
	return copy(b, d.bytes[at:]), nil
}

// WriteAt implements kvstore.Disk.
func (h *diskHandle) WriteAt(b []byte, at int64) (int, error) {
	d := h.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case h.dead || d.state == DiskFull:
		return 0, fmt.Errorf("no space left on device: %w", errDisk)
	case d.state == DiskNoWrites:
		n := d.rng.IntN(len(b)/kv.SlotUnit) * kv.SlotUnit
		copy(d.bytes[at:], b[:n])
		return n, errDisk
	}
	if len(d.recent) == recentWrites {
		d.recent = d.recent[1:]
	}
	d.recent = append(d.recent, diskWrite{at, append([]byte(nil), d.bytes[at:][:len(b)]...), time.Now()})
	return copy(d.bytes[at:], b), nil
}

// Close implements kvstore.Disk.
func (h *diskHandle) Close() error { return nil }
