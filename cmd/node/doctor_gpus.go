package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"troupe/core/health"
	"troupe/core/units"
	"troupe/cuda"
	"troupe/cuda/driver"
	"troupe/cuda/host"
	"troupe/cuda/selftest"
	"troupe/cuda/telemetry"
)

const (
	measureBytes  = 64 << 20
	measureRounds = 3
	// slowLinkShare is the share of a link's bandwidth below which a measurement is a warning.
	slowLinkShare = 0.5
)

// checkDevices checks the GPUs of this machine, or the software GPUs that --devices asks for.
func checkDevices(ctx context.Context, s settings) (all []finding) {
	if s.Devices != autoDevices {
		configs, _ := parseDevices(s.Devices) // validated with the other options
		return checkSoftware(ctx, configs)
	}
	all = checkDeviceFiles("/dev/nvidia*")
	found, none, err := driver.Probe()
	switch {
	case err != nil:
		all = append(all, fail("driver", err.Error(),
			cudaRemedy(err, "see nvidia-smi and dmesg; reload or reinstall NVIDIA's driver")))
	case len(found) == 0 && pciGPUs() > 0:
		all = append(all, fail("driver", fmt.Sprintf("%d NVIDIA GPUs are in this machine, but %s", pciGPUs(), none),
			"install NVIDIA's driver, or give the container access: --gpus all"))
	case len(found) == 0:
		all = append(all, warn("driver", "no GPU: "+none, "none is needed: a software GPU takes its place, slowly"))
		return append(all, checkSoftware(ctx, hostDevices(1, machineMemory()/2, 0))...)
	default:
		all = append(all, pass("driver", fmt.Sprintf("%d GPUs", len(found))))
	}
	byUUID, findings := checkNVML(len(found))
	all = append(all, findings...)
	for _, info := range found {
		open := func() (cuda.Device, error) { return driver.Open(info.Index, s.CUBLAS) }
		all = append(all, benchmark(ctx, fmt.Sprintf("gpu-%d", info.Index), byUUID[info.UUID].PCIe, open))
	}
	return all
}

// cudaRemedies are remedies by CUresult, after the causes that NVIDIA documents (CUDA driver API,
// "Data types used by CUDA driver").
var cudaRemedies = map[int]string{
	34: "the libcuda.so.1 that is found is the toolkit's stub: remove its folder from LD_LIBRARY_PATH",
	222: "install a newer NVIDIA driver: this one does not support the PTX of the kernels " +
		"(CUDA 12.0 or later: 525)",
	802: "start nvidia-fabricmanager, which a machine with NVSwitch needs, and wait until it is ready",
	803: "libcuda.so.1 does not match the version of the loaded kernel module: reboot or reload the module, " +
		"or in a container use the host's library",
	804: "the compatibility libcuda.so.1 does not support this GPU: remove its folder from LD_LIBRARY_PATH, " +
		"and install a newer NVIDIA driver",
}

// cudaRemedy returns the remedy for a CUDA fault, or otherwise if it has none.
func cudaRemedy(err error, otherwise string) string {
	if fault := (*cuda.Fault)(nil); errors.As(err, &fault) {
		return cmp.Or(cudaRemedies[fault.Code], otherwise)
	}
	return otherwise
}

// pciGPUs counts the NVIDIA GPUs on the PCI bus, with or without a driver.
func pciGPUs() (gpus int) {
	devices, _ := filepath.Glob("/sys/bus/pci/devices/*")
	for _, d := range devices {
		vendor, _ := os.ReadFile(filepath.Join(d, "vendor"))
		class, _ := os.ReadFile(filepath.Join(d, "class"))
		if strings.HasPrefix(string(vendor), "0x10de") && strings.HasPrefix(string(class), "0x03") {
			gpus++
		}
	}
	return gpus
}

// checkDeviceFiles opens the driver's device files that match a pattern.
func checkDeviceFiles(pattern string) []finding {
	files, _ := filepath.Glob(pattern)
	opened := 0
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil || info.Mode()&os.ModeDevice == 0 {
			continue
		}
		file, err := os.OpenFile(f, os.O_RDWR, 0)
		if errors.Is(err, os.ErrPermission) {
			return []finding{fail("permissions", "no permission to use "+f, "add this user to the group that owns it "+
				"(ls -l "+f+"), or start the container with access to it")}
		}
		if err == nil {
			opened++
			file.Close()
		}
	}
	if opened == 0 {
		return nil // the driver check reports it
	}
	return []finding{pass("permissions", fmt.Sprintf("%d device files can be opened", opened))}
}

// checkNVML queries the GPUs through the management library, and compares their number with the
// driver's. It returns their facts by UUID.
func checkNVML(gpus int) (byUUID map[string]telemetry.Facts, all []finding) {
	lib, err := telemetry.OpenNVML("")
	if err != nil {
		return nil, []finding{warn("library", err.Error(),
			"a node serves without it, but does not see the temperature and memory errors of its GPUs")}
	}
	v := lib.Versions()
	all = []finding{pass("library", fmt.Sprintf("driver %s, NVML %s, CUDA %s", v.Driver, v.NVML, v.CUDA))}
	seen, err := lib.GPUs()
	if err != nil {
		return nil, append(all, fail("library", err.Error(), "see nvidia-smi and dmesg"))
	}
	if gpus > 0 && len(seen) != gpus {
		all = append(all, warn("library", fmt.Sprintf("NVML sees %d GPUs, CUDA %d", len(seen), gpus),
			"see CUDA_VISIBLE_DEVICES"))
	}
	byUUID = make(map[string]telemetry.Facts)
	for i, g := range seen {
		byUUID[g.Facts().UUID] = g.Facts()
		all = append(all, gpuFinding(fmt.Sprintf("gpu-%d", i), g.Facts(), g.Health()))
	}
	return byUUID, all
}

// gpuFinding returns the most severe problem of a GPU, or its description if it has none.
func gpuFinding(name string, f telemetry.Facts, o health.Observation) finding {
	reset := "reset it (nvidia-smi --gpu-reset), and have it replaced if the problem returns"
	switch fault, notes := health.Judge(nil, o); {
	case fault.Cause != health.None:
		return fail(name, f.Name+": "+fault.Detail, reset)
	case len(notes) > 0:
		return warn(name, f.Name+": "+strings.Join(notes, "; "), reset)
	case o.PCIe.Width > 0 && o.PCIe.Width < f.PCIe.Width:
		return warn(name, fmt.Sprintf("%s: its PCIe link has %d lanes of %d", f.Name, o.PCIe.Width, f.PCIe.Width),
			"reseat the card, or use another slot")
	}
	text := fmt.Sprintf("%s, %s, PCIe %d.0 x%d",
		f.Name, units.FormatBytes(f.MemoryBytes), f.PCIe.Generation, o.PCIe.Width)
	if o.NVLinks > 0 {
		text += fmt.Sprintf(", %d NVLinks", o.NVLinks)
	}
	if o.Temperature.Known {
		text += fmt.Sprintf(", %d °C", o.Temperature.Value)
	}
	return pass(name, text)
}

func checkSoftware(ctx context.Context, configs []host.Config) (all []finding) {
	for _, cfg := range configs {
		name := fmt.Sprintf("gpu-%d", cfg.Index)
		open := func() (cuda.Device, error) { return host.Open(cfg) }
		all = append(all, pass(name, "software GPU with "+units.FormatBytes(cfg.MemoryBytes)),
			benchmark(ctx, name, health.Link{}, open))
	}
	return all
}

// benchmark opens a device, runs its self-test and measures its copy bandwidth. It gives up a device
// that hangs when ctx ends.
func benchmark(ctx context.Context, name string, link health.Link, open func() (cuda.Device, error)) finding {
	result := make(chan finding, 1)
	go func() { result <- benchmarkDevice(ctx, name, link, open) }()
	select {
	case f := <-result:
		return f
	case <-ctx.Done():
		return fail(name, "the device hangs: no copy finished in time", "reset it: nvidia-smi --gpu-reset")
	}
}

func benchmarkDevice(ctx context.Context, name string, link health.Link, open func() (cuda.Device, error)) finding {
	d, err := open()
	if err != nil {
		return fail(name, err.Error(), cudaRemedy(err, "see nvidia-smi and dmesg"))
	}
	defer d.Close()
	if err := selftest.Run(ctx, d); err != nil {
		return fail(name, err.Error(), "see nvidia-smi and dmesg; reset it, or have it replaced")
	}
	speeds, err := selftest.Bandwidth(ctx, d, measureBytes, measureRounds)
	if err != nil {
		return fail(name, err.Error(), "see nvidia-smi and dmesg")
	}
	text := fmt.Sprintf("copies of %s, GB/s: %.1f in, %.1f out, %.1f within",
		units.FormatBytes(measureBytes), speeds.In/1e9, speeds.Out/1e9, speeds.Within/1e9) + gemmBackend(d)
	if most := pcieBandwidth(link); min(speeds.In, speeds.Out) < slowLinkShare*most {
		return warn(name, fmt.Sprintf("%s; its link allows %.1f", text, most/1e9),
			"check for other users of the link, and that host memory is on the GPU's NUMA node")
	}
	return pass(name, text)
}

// pcieBandwidth returns the bandwidth of a PCIe link in one direction, in bytes per second: the
// transfer rate per lane less the line code (8b/10b up to generation 2, then 128b/130b; PCIe base
// specification). It is 0 for an unknown link.
func pcieBandwidth(l health.Link) float64 {
	perLane := [...]float64{0, 0.25e9, 0.5e9, 0.985e9, 1.969e9, 3.938e9, 7.563e9}
	return perLane[min(max(l.Generation, 0), len(perLane)-1)] * float64(l.Width)
}
