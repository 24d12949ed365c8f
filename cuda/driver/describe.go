//go:build linux

package driver

import (
	"bytes"
	"errors"
	"fmt"

	"troupe/cuda"
)

// Queried attributes of a device: CUdevice_attribute.
const (
	multiprocessors = 16
	l2Bytes         = 38
	copyEngines     = 40
	computeMajor    = 75
	computeMinor    = 76
	sharedBytes     = 97
	virtualMemory   = 102
)

func (l *Library) describeDevice(index int) (info cuda.Info, handle uintptr, err error) {
	if index < 0 || index >= l.count {
		return info, 0, fmt.Errorf("cuda: no GPU %d: this machine has %d", index, l.count)
	}
	device, name, uuid, memory := out[int32](), out[[256]byte](), out[[16]byte](), out[uint64]()
	if err := l.call("find the device", l.DeviceGet, address(device), uintptr(index)); err != nil {
		return info, 0, err
	}
	handle = uintptr(*device)
	err = errors.Join(
		l.call("query the name", l.DeviceName, address(name), uintptr(len(name)), handle),
		l.call("query the UUID", l.DeviceUUID, address(uuid), handle),
		l.call("query the memory size", l.DeviceMemory, address(memory), handle),
	)
	info = cuda.Info{
		Index: index, Name: text(name[:]), MemoryBytes: int64(*memory), Simulated: l.Fake.at != 0, Weights: cuda.F32,
		Graphs: l.CaptureBegin.at != 0 && l.CaptureEnd.at != 0 && l.GraphInstantiate.at != 0 && l.GraphLaunch.at != 0,
		UUID:   fmt.Sprintf("GPU-%x-%x-%x-%x-%x", uuid[:4], uuid[4:6], uuid[6:8], uuid[8:10], uuid[10:]),
	}
	if info.Graphs {
		info.GraphOpBytes = graphOpBytes
	}
	switch major := l.fact(handle, computeMajor); {
	case major >= 8:
		info.Weights = cuda.BF16
	case major == 7:
		info.Weights = cuda.F16
	}
	return info, handle, err
}

// text returns the bytes before the first zero.
func text(b []byte) string {
	b, _, _ = bytes.Cut(b, []byte{0})
	return string(b)
}

// fact returns an attribute of a device, or 0 if it is unknown.
func (l *Library) fact(device uintptr, attribute int) int {
	value := out[int32]()
	if err := l.call("query an attribute", l.DeviceFact, address(value), uintptr(attribute), device); err != nil {
		return 0
	}
	return int(*value)
}

// Properties implements cuda.Describer.
func (d *device) Properties() cuda.Properties {
	pci := out[[32]byte]()
	_ = d.lib.call("query the PCI address", d.lib.DevicePCI, address(pci), uintptr(len(pci)), d.handle)
	return cuda.Properties{
		Driver: d.lib.Version(), PCI: text(pci[:]), GEMMBackend: d.gemmBackend(),
		Major: d.lib.fact(d.handle, computeMajor), Minor: d.lib.fact(d.handle, computeMinor),
		Multiprocessors: d.lib.fact(d.handle, multiprocessors), CopyEngines: d.lib.fact(d.handle, copyEngines),
		SharedBytes: int64(d.lib.fact(d.handle, sharedBytes)), L2Bytes: int64(d.lib.fact(d.handle, l2Bytes)),
	}
}
