package telemetry

import (
	"errors"

	"troupe/core/health"
	"troupe/cuda"
)

// Source reports on one device. It is used by one goroutine at a time.
type Source interface {
	Facts() Facts
	// Health returns the device's current state. A device that does not respond is an observation,
	// not an error.
	Health() health.Observation
}

// Facts do not change while the node runs. Zero values are unknown.
type Facts struct {
	Name        string
	UUID        string // "GPU-…", equal to cuda.Info.UUID
	PCI         string // "00000000:53:00.0"
	MemoryBytes int64
	PowerLimit  uint64      // mW
	PCIe        health.Link // the maximum of device and slot
	Near        []Neighbour // the other devices of the machine
}

// Neighbour is another device of the same machine.
type Neighbour struct {
	UUID    string
	NVLinks int // number of links between the two, directly or through a switch
	Level   Level
}

// Level is the distance between two devices on PCIe.
type Level string

// Levels, as in the legend of nvidia-smi topo -m, nearest first.
const (
	SameBoard      Level = "same board"
	OneSwitch      Level = "one PCIe switch"       // PIX
	SeveralBridges Level = "several PCIe switches" // PXB
	HostBridge     Level = "a PCIe host bridge"    // PHB
	SameNUMA       Level = "the same NUMA node"    // NODE
	OtherNUMA      Level = "another NUMA node"     // SYS
)

// Versions are those of the software between this process and the devices.
type Versions struct{ Driver, NVML, CUDA string }

// ErrNoLibrary means that libnvidia-ml.so.1 is not available, or that this build cannot load it.
var ErrNoLibrary = errors.New("no NVIDIA management library")

// Device returns the Source of a device that NVML does not know, such as the software device.
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
