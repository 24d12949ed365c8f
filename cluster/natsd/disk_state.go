package natsd

import (
	"fmt"
	"time"
)

// DiskState says whether the store can be written.
type DiskState int

// States of a disk.
const (
	DiskOK      DiskState = iota + 1
	DiskLow               // less is free than is needed; the store still takes writes
	DiskStopped           // the store takes no writes
)

// Disk is how the data folder is.
type Disk struct {
	State        DiskState
	Folder       string
	Free, Needed int64  // bytes
	Error        string // why the store takes no writes
}

// String says how the folder is, and what is missing.
func (d Disk) String() string {
	missing := max(0, d.Needed-d.Free)
	space := fmt.Sprintf("data folder %s has %s free and needs %s: %s missing",
		d.Folder, formatBytes(d.Free), formatBytes(d.Needed), formatBytes(missing))
	switch {
	case d.State == DiskStopped && missing > 0:
		return space + "; the store takes no changes until there is space"
	case d.State == DiskStopped:
		return fmt.Sprintf("data folder %s: the store takes no changes: %s; it is opened again", d.Folder, d.Error)
	case d.State == DiskLow:
		return space
	}
	return fmt.Sprintf("data folder %s has %s free, and the store takes changes", d.Folder, formatBytes(d.Free))
}

// next returns the disk as it is now, and reports whether the store should be opened again. A disk that was low
// counts as low until a quarter more than what is needed is free.
func (d Disk) next(folder string, free, needed int64, writeError string) (now Disk, recover bool) {
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

// backoff spaces attempts: at once, then after 1 s, and each time twice as long.
type backoff struct {
	next time.Time
	wait time.Duration
}

// due reports whether it is time for an attempt, which begins then.
func (b *backoff) due(now time.Time) bool {
	if now.Before(b.next) {
		return false
	}
	b.wait = min(max(2*b.wait, time.Second), maxRetryInterval)
	b.next = now.Add(b.wait)
	return true
}
