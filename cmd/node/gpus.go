package main

import (
	"errors"
	"fmt"

	"troupe/core/units"
	"troupe/cuda"
	"troupe/cuda/driver"
	"troupe/cuda/telemetry"
	"troupe/node"
)

// openDevices opens the GPUs, or configures software GPUs, and adds a note for each. Call it last:
// on success the node closes what it opened.
func (s *settings) openDevices(cfg *node.Config) (err error) {
	if cfg.SimulatedDevices, err = parseSimulated(s.SimulatedDevices); err != nil {
		return err
	}
	if n := len(cfg.SimulatedDevices); n > 0 {
		s.addNote("%d simulated devices: %s. Nothing is computed on them.", n,
			cfg.SimulatedDevices[0].Profile.Device.Name)
	}
	if s.Devices != autoDevices {
		cfg.Devices, err = parseDevices(s.Devices)
		return err
	}
	found, none, err := driver.Probe()
	if err != nil {
		return fmt.Errorf(
			"this machine's GPUs: %w; see \"troupe doctor\", or use --devices host:1x4GiB",
			err)
	}
	if len(found) == 0 {
		cfg.Devices = hostDevices(1, machineMemory()/2, 0)
		s.addNote("No GPU: %s.\nUsing one software GPU with %s.", none,
			units.FormatBytes(cfg.Devices[0].MemoryBytes))
		return nil
	}
	sources, unseen := healthSources()
	if unseen != nil {
		s.addNote("GPU health is not monitored: %s.", unseen)
	}
	for _, info := range found {
		d, err := driver.Open(info.Index, s.CUBLAS)
		if err != nil {
			return errors.Join(fmt.Errorf("%w; see \"troupe doctor\"", err), closeAll(cfg.GPUs))
		}
		gpu := node.GPU{Device: d, Source: telemetry.Device(d)}
		if source := sources[info.UUID]; source != nil {
			gpu.Source = source
		}
		cfg.GPUs = append(cfg.GPUs, gpu)
		s.addNote("gpu-%d is %s.", info.Index, describeGPU(info)+gemmBackend(d))
	}
	return nil
}

// describeGPU returns the name and memory of a GPU.
func describeGPU(info cuda.Info) string {
	text := fmt.Sprintf("%s with %s", info.Name, units.FormatBytes(info.MemoryBytes))
	if info.Simulated {
		text += ", simulated"
	}
	return text
}

// gemmBackend returns the GEMM backend of a device as a suffix of its description.
func gemmBackend(d cuda.Device) string {
	p, err := cuda.As[cuda.Describer](d)
	if err != nil || p.Properties().GEMMBackend == "" {
		return ""
	}
	return "; GEMM by " + p.Properties().GEMMBackend
}

// healthSources returns the health sources of this machine's GPUs by UUID.
func healthSources() (map[string]telemetry.Source, error) {
	lib, err := telemetry.OpenNVML("")
	if err != nil {
		return nil, err
	}
	gpus, err := lib.GPUs()
	byUUID := make(map[string]telemetry.Source)
	for _, g := range gpus {
		byUUID[g.Facts().UUID] = g
	}
	return byUUID, err
}

func closeAll(gpus []node.GPU) (err error) {
	for _, g := range gpus {
		err = errors.Join(err, g.Close())
	}
	return err
}
