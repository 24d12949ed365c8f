package natsd

import (
	"fmt"
	"time"

	"troupe/core/units"
)

// DiskState is the state of the store's disk.
type DiskState int

// States of a disk.
const (
	DiskOK      DiskState = iota + 1
	DiskLow               // too little space is free, but the store still accepts writes
	DiskStopped           // the store accepts no writes
)

// Disk describes the state of the data folder.
type Disk struct {
	State        DiskState
	Folder       string
	Free, Needed int64  // in bytes
	Error        string // why the store accepts no writes
}

// String describes the state and the missing space for people.
func (d Disk) String() string {
	missing := max(0, d.Needed-d.Free)
	space := fmt.Sprintf("data folder %s has %s free and needs %s: %s missing",
		d.Folder, units.FormatBytes(d.Free), units.FormatBytes(d.Needed), units.FormatBytes(missing))
	switch {
	case d.State == DiskStopped && missing > 0:
		return space + "; the store takes no changes until there is space"
	case d.State == DiskStopped:
		return fmt.Sprintf("data folder %s: the store takes no changes: %s; opening it again", d.Folder, d.Error)
	case d.State == DiskLow:
		return space
	}
	return fmt.Sprintf("data folder %s has %s free, and the store takes changes", d.Folder, units.FormatBytes(d.Free))
}

// next returns the current state of the disk, and reports whether the server should be restarted. A
// disk that was low remains low until a quarter more than the needed space is free.
func (d Disk) next(folder string, free, needed int64, writeError string) (now Disk, shouldRestart bool) {
	now = Disk{State: DiskOK, Folder: folder, Free: free, Needed: needed, Error: writeError}
	enough := needed
	if d.State == DiskLow || d.State == DiskStopped {
		enough += needed / 4
	}
	switch {
	case writeError != "":
		now.State = DiskStopped
		return now, free >= needed
	case free < enough:
		now.State, now.Needed = DiskLow, enough
	}
	return now, false
}

// backoff spaces attempts: the first is immediate, the second follows after 1 s, and the interval
// doubles up to maxRetryInterval.
type backoff struct {
	next time.Time
	wait time.Duration
}

// due reports whether an attempt is due now, and counts it as made.
func (b *backoff) due(now time.Time) bool {
	if now.Before(b.next) {
		return false
	}
	b.wait = min(max(2*b.wait, time.Second), maxRetryInterval)
	b.next = now.Add(b.wait)
	return true
}
