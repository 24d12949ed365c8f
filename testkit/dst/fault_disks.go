package dst

import (
	"math/rand/v2"
	"time"
)

// Faults of disks.
const (
	BreakDisk  FaultKind = "break-disk"  // Node's disk is in the state Disk
	DamageDisk FaultKind = "damage-disk" // Count bits of blocks on Node's disk flip
)

var diskStates = []DiskState{DiskSlow, DiskNoReads, DiskNoWrites, DiskFull}

// drawDisks fills in a fault of a disk.
func (f *Fault) drawDisks(rng *rand.Rand, span func(least, most time.Duration) time.Duration) {
	switch f.Kind {
	case BreakDisk:
		f.Disk, f.For = diskStates[rng.IntN(len(diskStates))], span(time.Second, 15*time.Second)
	case DamageDisk:
		f.Count = 1 << rng.IntN(10)
	}
}

// injectDisks injects a fault of a disk.
func (c *cluster) injectDisks(f Fault, later func(func())) {
	switch f.Kind {
	case BreakDisk:
		d := c.disks[f.Node]
		d.set(f.Disk)
		later(func() { d.set("") })
	case DamageDisk:
		c.disks[f.Node].damage(f.Count)
	}
}
