package health

import (
	"fmt"
	"strings"
)

// Reading is a value that some devices do not report.
type Reading struct {
	Value uint64
	Known bool
}

// Known returns a reading of a known value.
func Known(value uint64) Reading { return Reading{value, true} }

// Link is the current state of a PCIe connection. Zeros are unknown.
type Link struct{ Generation, Width int }

// Observation is the state of a device at one moment.
type Observation struct {
	Lost string // why the device stopped responding, in the driver's words; "" while it responds

	MemoryUsed        Reading // bytes, by all processes
	Utilisation       Reading // percent of time in which a kernel ran
	MemoryUtilisation Reading // percent of time in which memory was read or written
	Temperature       Reading // °C
	Power             Reading // mW
	Corrected         Reading // memory errors corrected by ECC since the driver was loaded
	Uncorrectable     Reading // memory errors that ECC could not correct
	RemapPending      bool    // a memory row is remapped at the next reset
	RemapFailed       bool    // a memory row could not be remapped
	PCIe              Link
	NVLinks           int // number of active links

	XIDs []uint64 // events since the previous observation, in order
}

// Cause is the reason of a quarantine.
type Cause uint8

// Causes.
const (
	None     Cause = iota
	Operator       // quarantined by an operator
	Lost           // the device does not respond
	Memory         // memory errors that ECC could not correct
	XID            // an event that requires a reset
	Hung           // a step hung or gave a wrong answer, and a self-test failed or hung too
)

// Fault is a fault of a device. The zero value is no fault.
type Fault struct {
	Cause  Cause
	Detail string // for people
}

// Judge compares an observation with the previous one, which is nil at first. Notes are
// observations that require no action.
func Judge(before *Observation, now Observation) (fault Fault, notes []string) {
	if now.Lost != "" {
		return Fault{Lost, "device lost: " + now.Lost}, nil
	}
	var fatal []string
	for _, code := range now.XIDs {
		x := Classify(code)
		if x.Effect == OnDevice {
			fatal = append(fatal, x.String())
		} else {
			notes = append(notes, x.String())
		}
	}
	if len(fatal) > 0 {
		return Fault{XID, strings.Join(fatal, "; ")}, notes
	}
	memory, notice := judgeMemory(before, now)
	if notice != "" {
		notes = append(notes, notice)
	}
	return memory, notes
}

// judgeMemory compares the counters of ECC and of the row remapper.
func judgeMemory(before *Observation, now Observation) (fault Fault, note string) {
	previous := Observation{}
	if before != nil {
		previous = *before
	}
	switch growth := int64(now.Uncorrectable.Value - previous.Uncorrectable.Value); {
	case now.RemapFailed && !previous.RemapFailed:
		return Fault{Memory, "memory row could not be remapped: replace the device"}, ""
	case now.Uncorrectable.Known && previous.Uncorrectable.Known && growth > 0:
		return Fault{Memory, fmt.Sprintf("%d uncorrectable memory errors (ECC): reset the device", growth)}, ""
	case before == nil && now.Uncorrectable.Value > 0:
		return Fault{}, fmt.Sprintf("%d uncorrectable memory errors (ECC) before this node started",
			now.Uncorrectable.Value)
	case now.RemapPending && !previous.RemapPending:
		return Fault{}, "a memory row will be remapped at the next reset"
	}
	return Fault{}, ""
}
