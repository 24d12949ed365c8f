package health

import (
	"fmt"
	"strings"
)

// Reading is a value that a device may not tell.
type Reading struct {
	Value uint64
	Known bool
}

// Known is a reading of a value.
func Known(value uint64) Reading { return Reading{value, true} }

// Link is a PCIe connection, as it runs now. Zeros are not known.
type Link struct{ Generation, Width int }

// Observation is how a device is at one moment.
type Observation struct {
	Lost string // why the device answers no more, in the driver's words; empty while it does

	MemoryUsed        Reading // bytes, by all processes
	Utilisation       Reading // percent of the time in which a kernel ran
	MemoryUtilisation Reading // percent of the time in which memory was read or written
	Temperature       Reading // °C
	Power             Reading // mW
	Corrected         Reading // memory errors that ECC put right, since the driver was loaded
	Uncorrectable     Reading // memory errors that it could not
	RemapPending      bool    // a row of memory waits to be replaced, at the next reset
	RemapFailed       bool    // one could not be replaced
	PCIe              Link
	NVLinks           int // links that are up

	XIDs []uint64 // events since the observation before, in order
}

// Cause is why a device is quarantined.
type Cause uint8

// Causes.
const (
	None     Cause = iota
	Operator       // somebody said so
	Lost           // it answers no more
	Memory         // errors that ECC could not put right
	XID            // an event after which the device needs a reset
)

// Fault is what is wrong with a device. The zero value is no fault.
type Fault struct {
	Cause  Cause
	Detail string // for people
}

// Judge compares an observation with the one before, nil at first. Notes are what people should know and nothing has to be
// done about.
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

// judgeMemory looks at what ECC and the row remapper count.
func judgeMemory(before *Observation, now Observation) (fault Fault, note string) {
	was := Observation{}
	if before != nil {
		was = *before
	}
	switch grown := int64(now.Uncorrectable.Value - was.Uncorrectable.Value); {
	case now.RemapFailed && !was.RemapFailed:
		return Fault{Memory, "a faulty row of its memory could not be replaced (row remapping failed): have the device replaced"}, ""
	case now.Uncorrectable.Known && was.Uncorrectable.Known && grown > 0:
		return Fault{Memory, fmt.Sprintf("%d uncorrectable memory errors (ECC): reset the device", grown)}, ""
	case before == nil && now.Uncorrectable.Value > 0:
		return Fault{}, fmt.Sprintf("%d uncorrectable memory errors (ECC) before this node started", now.Uncorrectable.Value)
	case now.RemapPending && !was.RemapPending:
		return Fault{}, "a row of its memory will be replaced at the next reset"
	}
	return Fault{}, ""
}
