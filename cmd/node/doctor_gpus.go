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
	// slowLinkShare is the share of what a link could carry below which its bandwidth is remarked on.
	slowLinkShare = 0.5
)

// checkDevices looks at the GPUs of this machine, or at the software devices that are asked for.
func checkDevices(ctx context.Context, s settings) (all []finding) {
	if s.Devices != autoDevices {
		configs, _ := parseDevices(s.Devices) // checked with the other options
		return checkSoftware(ctx, configs)
	}
	all = checkDeviceFiles("/dev/nvidia*")
	found, none, err := driver.Probe()
	switch {
	case err != nil:
		all = append(all, finding{"driver", stateFix, err.Error(), cudaRemedy(err, "see nvidia-smi and dmesg; reload or reinstall NVIDIA's driver")})
	case len(found) == 0 && pciGPUs() > 0:
		all = append(all, finding{"driver", stateFix, fmt.Sprintf("%d NVIDIA GPUs are in this machine, but %s", pciGPUs(), none), "install NVIDIA's driver, or give the container access: --gpus all"})
	case len(found) == 0:
		all = append(all, finding{"driver", stateWarning, "no GPU: " + none, "none is needed: a software GPU takes its place, slowly"})
		return append(all, checkSoftware(ctx, hostDevices(1, machineMemory()/2))...)
	default:
		all = append(all, finding{"driver", stateOK, fmt.Sprintf("%d GPUs", len(found)), ""})
	}
	told, findings := checkNVML(len(found))
	all = append(all, findings...)
	for _, info := range found {
		link := told[info.UUID].PCIe
		all = append(all, benchmark(ctx, fmt.Sprintf("gpu-%d", info.Index), link, func() (cuda.Device, error) { return driver.Open(info.Index, s.CUBLAS) })...)
	}
	return all
}

// cudaRemedies are for faults of which NVIDIA says where they come from: CUDA driver API, "Data types used by CUDA driver", CUresult.
var cudaRemedies = map[int]string{
	34:  "the libcuda.so.1 that is found is the toolkit's stub: take its folder out of LD_LIBRARY_PATH",
	222: "install a newer NVIDIA driver: this one does not know the PTX of the kernels (CUDA 12.0 or later: 525)",
	802: "start nvidia-fabricmanager, which a machine with NVSwitch needs, and wait until it is ready",
	803: "libcuda.so.1 is not of the version of the loaded kernel module: reboot or reload it, or in a container use the host's library",
	804: "the compatibility libcuda.so.1 does not serve this GPU: take its folder out of LD_LIBRARY_PATH, and install a newer NVIDIA driver",
}

// remedy is the one for a fault, or else.
func cudaRemedy(err error, otherwise string) string {
	if fault := (*cuda.Fault)(nil); errors.As(err, &fault) {
		return cmp.Or(cudaRemedies[fault.Code], otherwise)
	}
	return otherwise
}

// pciGPUs counts the NVIDIA GPUs that the kernel sees on PCI, driver or not.
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

// checkDeviceFiles tries the device files of the driver, by the pattern of their names.
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
			return []finding{{"permissions", stateFix, "no permission to use " + f, "put this user into the group that owns it (ls -l " + f + "), or start the container with access to it"}}
		}
		if err == nil {
			opened++
			file.Close()
		}
	}
	if opened == 0 {
		return nil // the driver says what that means
	}
	return []finding{{"permissions", stateOK, fmt.Sprintf("%d device files can be used", opened), ""}}
}

// checkNVML asks the management library about the GPUs, and whether it sees as many as the driver.
func checkNVML(gpus int) (byUUID map[string]telemetry.Facts, all []finding) {
	lib, err := telemetry.OpenNVML("")
	if err != nil {
		return nil, []finding{{"library", stateWarning, err.Error(), "without it a node serves, but sees neither temperature nor memory errors of its GPUs"}}
	}
	v := lib.Versions()
	all = []finding{{"library", stateOK, fmt.Sprintf("driver %s, NVML %s, CUDA %s", v.Driver, v.NVML, v.CUDA), ""}}
	seen, err := lib.GPUs()
	if err != nil {
		return nil, append(all, finding{"library", stateFix, err.Error(), "see nvidia-smi and dmesg"})
	}
	if gpus > 0 && len(seen) != gpus {
		all = append(all, finding{"library", stateWarning, fmt.Sprintf("it sees %d GPUs, and CUDA %d", len(seen), gpus), "see CUDA_VISIBLE_DEVICES"})
	}
	byUUID = make(map[string]telemetry.Facts)
	for i, g := range seen {
		byUUID[g.Facts().UUID] = g.Facts()
		all = append(all, gpuFinding(fmt.Sprintf("gpu-%d", i), g.Facts(), g.Health()))
	}
	return byUUID, all
}

// gpuFinding says the worst that is known of a GPU, or how it is.
func gpuFinding(name string, f telemetry.Facts, o health.Observation) finding {
	reset := "reset it (nvidia-smi --gpu-reset), and have it replaced if that does not last"
	switch fault, notes := health.Judge(nil, o); {
	case fault.Cause != health.None:
		return finding{name, stateFix, f.Name + ": " + fault.Detail, reset}
	case len(notes) > 0:
		return finding{name, stateWarning, f.Name + ": " + strings.Join(notes, "; "), reset}
	case o.PCIe.Width > 0 && o.PCIe.Width < f.PCIe.Width:
		return finding{name, stateWarning, fmt.Sprintf("%s: its PCIe link has %d lanes of %d", f.Name, o.PCIe.Width, f.PCIe.Width), "reseat the card, or use another slot"}
	}
	text := fmt.Sprintf("%s, %s, PCIe %d.0 x%d", f.Name, units.FormatBytes(f.MemoryBytes), f.PCIe.Generation, o.PCIe.Width)
	if o.NVLinks > 0 {
		text += fmt.Sprintf(", %d NVLinks", o.NVLinks)
	}
	if o.Temperature.Known {
		text += fmt.Sprintf(", %d °C", o.Temperature.Value)
	}
	return finding{name, stateOK, text, ""}
}

func checkSoftware(ctx context.Context, configs []host.Config) (all []finding) {
	for _, cfg := range configs {
		name := fmt.Sprintf("gpu-%d", cfg.Index)
		all = append(all, finding{name, stateOK, "software GPU with " + units.FormatBytes(cfg.MemoryBytes), ""})
		all = append(all, benchmark(ctx, name, health.Link{}, func() (cuda.Device, error) { return host.Open(cfg) })...)
	}
	return all
}

// benchmark opens a device, tries it and measures its copies. One that hangs is given up when ctx ends.
func benchmark(ctx context.Context, name string, link health.Link, open func() (cuda.Device, error)) []finding {
	result := make(chan finding, 1)
	go func() { result <- benchmarkDevice(ctx, name, link, open) }()
	select {
	case f := <-result:
		return []finding{f}
	case <-ctx.Done():
		return []finding{{name, stateFix, "it hangs: no copy has ended in time", "reset it: nvidia-smi --gpu-reset"}}
	}
}

func benchmarkDevice(ctx context.Context, name string, link health.Link, open func() (cuda.Device, error)) finding {
	d, err := open()
	if err != nil {
		return finding{name, stateFix, err.Error(), cudaRemedy(err, "see nvidia-smi and dmesg")}
	}
	defer d.Close()
	if err := selftest.Run(ctx, d); err != nil {
		return finding{name, stateFix, err.Error(), "see nvidia-smi and dmesg; reset it, or have it replaced"}
	}
	speeds, err := selftest.Bandwidth(ctx, d, measureBytes, measureRounds)
	if err != nil {
		return finding{name, stateFix, err.Error(), "see nvidia-smi and dmesg"}
	}
	text := fmt.Sprintf("copies of %s, GB/s: %.1f in, %.1f out, %.1f within", units.FormatBytes(measureBytes), speeds.In/1e9, speeds.Out/1e9, speeds.Within/1e9) + gemmBackend(d)
	if could := pcieBandwidth(link); min(speeds.In, speeds.Out) < slowLinkShare*could {
		return finding{name, stateWarning, fmt.Sprintf("%s; its link could carry %.1f", text, could/1e9), "see whether others use the link, and that the host's memory is on the GPU's NUMA node"}
	}
	return finding{name, stateOK, text, ""}
}

// pcieBandwidth is what a PCIe link can carry one way, in bytes per second: transfers per second and lane, less the line code (8b/10b up to
// generation 2, then 128b/130b; PCIe base specification). It is 0 for a link that is not known.
func pcieBandwidth(l health.Link) float64 {
	perLane := [...]float64{0, 0.25e9, 0.5e9, 0.985e9, 1.969e9, 3.938e9, 7.563e9}
	return perLane[min(max(l.Generation, 0), len(perLane)-1)] * float64(l.Width)
}
