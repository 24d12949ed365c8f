package telemetry

import (
	"errors"

	"troupe/core/health"
	"troupe/cuda"
)

// Source tells about one device. It is used by one goroutine at a time.
type Source interface {
	Facts() Facts
	// Health returns how the device is now. A device that answers no more is an observation too, not an error.
	Health() health.Observation
}

// Facts do not change while the node runs. Zeros and empty strings are what the device does not tell.
type Facts struct {
	Name        string
	UUID        string // "GPU-…", as cuda.Info has it
	PCI         string // "00000000:53:00.0"
	MemoryBytes int64
	PowerLimit  uint64      // mW
	PCIe        health.Link // the most that device and slot can
	Near        []Neighbour // the other devices of the machine
}

// Neighbour is another device of the same machine.
type Neighbour struct {
	UUID    string
	NVLinks int // between the two, directly or by way of a switch
	Level   Level
}

// Level is what lies between two devices on PCIe; less is nearer.
type Level string

// Levels, as in the legend of nvidia-smi topo -m.
const (
	SameBoard      Level = "same board"
	OneSwitch      Level = "one PCIe switch"       // PIX
	SeveralBridges Level = "several PCIe switches" // PXB
	HostBridge     Level = "a PCIe host bridge"    // PHB
	SameNUMA       Level = "the same NUMA node"    // NODE
	OtherNUMA      Level = "another NUMA node"     // SYS
)

// Versions are of the software between this process and the devices.
type Versions struct{ Driver, NVML, CUDA string }

// ErrNoLibrary means that there is no libnvidia-ml.so.1 to load, or that this build can not.
var ErrNoLibrary = errors.New("no NVIDIA management library")

// Device is the Source of a device that only its cuda.Device can tell about: the software device.
func Device(d cuda.Device) Source { return device{d} }

type device struct{ cuda.Device }

func (d device) Facts() Facts {
	info := d.Info()
	return Facts{Name: info.Name, UUID: info.UUID, MemoryBytes: info.MemoryBytes}
}

func (d device) Health() health.Observation {
	free, total := d.Memory()
	return health.Observation{MemoryUsed: health.Known(uint64(total - free))}
}
