package health

import "fmt"

// Effect is the effect of an XID event on the work of a device.
type Effect uint8

// Effects.
const (
	// Notable events do not stop the device, or only accompany an event that determines the action.
	Notable Effect = iota
	// OnApplication events fail the work that caused them, which its engine detects. The device
	// continues.
	OnApplication
	// OnDevice events make the device unusable until it is reset.
	OnDevice
)

// Event is an XID event as described by NVIDIA's catalog.
type Event struct {
	Code   uint64
	Text   string
	Effect Effect
}

func (e Event) String() string {
	switch e.Effect {
	case OnDevice:
		return fmt.Sprintf("XID %d: %s; the device needs a reset", e.Code, e.Text)
	case OnApplication:
		return fmt.Sprintf("XID %d: %s; the running work failed, the device continues", e.Code, e.Text)
	}
	return fmt.Sprintf("XID %d: %s", e.Code, e.Text)
}

// Classify returns the event of an XID code. An event that is not in the tables is notable, so an
// unknown code never quarantines a device.
//
// Source: NVIDIA, "Analyzing Xid Errors with the Xid Catalog",
// https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html, column "Resolution Bucket
// (Immediate Action)", for A100 to GB200.
//
//   - OnDevice: RESET_GPU, RESTART_BM and RESTART_VM, and codes whose description asks for a reset:
//     48, 74, and 171 and 172, which accompany 48.
//   - OnApplication: RESTART_APP, and 43 and 45, which report that an application ended.
//   - Notable: all others. NVML does not report the details that distinguish the cases of 144 to
//     150 (NVLink 5). 154 follows the event that it is about.
func Classify(code uint64) Event {
	for _, table := range []struct {
		texts  map[uint64]string
		effect Effect
	}{{onDevice, OnDevice}, {onApplication, OnApplication}, {notable, Notable}} {
		if text, ok := table.texts[code]; ok {
			return Event{code, text, table.effect}
		}
	}
	return Event{code, "unknown code", Notable}
}

var onDevice = map[uint64]string{
	46:  "GPU stopped processing",
	48:  "double bit ECC error",
	62:  "internal micro-controller halted",
	64:  "memory row could not be remapped",
	74:  "NVLink error",
	79:  "GPU has fallen off the bus",
	95:  "uncontained memory error",
	109: "context switch timed out",
	110: "security fault",
	119: "GSP did not answer in time",
	120: "GSP error",
	136: "link training failed",
	140: "unrecovered ECC error",
	143: "GPU did not initialise",
	151: "key rotation error",
	155: "NVLink went down",
	156: "resource retired",
	158: "GPU timed out fatally",
	171: "uncorrectable DRAM error",
	172: "uncorrectable SRAM error",
}

var onApplication = map[uint64]string{
	8:   "GPU stopped processing",
	11:  "invalid or corrupted push buffer",
	13:  "exception in a kernel",
	25:  "invalid push buffer",
	31:  "memory page fault",
	32:  "invalid or corrupted push buffer",
	39:  "copy engine exception",
	40:  "copy engine exception",
	41:  "copy engine exception",
	43:  "GPU stopped processing for an application",
	45:  "work removed after an earlier error, or because its process ended",
	60:  "video processor exception",
	68:  "video decoder exception",
	69:  "graphics engine class error",
	70:  "copy engine error",
	71:  "copy engine error",
	72:  "copy engine error",
	75:  "copy engine error",
	76:  "copy engine error",
	77:  "copy engine error",
	80:  "corrupted data sent to the GPU",
	85:  "copy engine error",
	94:  "contained memory error",
	137: "NVLink privilege error",
}

var notable = map[uint64]string{
	63:  "memory row remapped; it takes effect at the next reset",
	92:  "many single bit ECC errors",
	121: "corrected errors on the link to the CPU",
	141: "CUDA fast path error",
	144: "NVLink error (SAW)",
	145: "NVLink error (RLW)",
	146: "NVLink error (TLW)",
	147: "NVLink error (TREX)",
	148: "NVLink error (NVLPW_CTRL)",
	149: "NVLink error (NETIR)",
	150: "NVLink error (MSE)",
	154: "the action that the driver recommends has changed",
	157: "no repair resources left",
}
