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

// openDevices settles which GPUs the node has, and notes what it found. It comes last: what it opens, the node closes.
func (s *settings) openDevices(cfg *node.Config) (err error) {
	if s.Devices != autoDevices {
		cfg.Devices, err = parseDevices(s.Devices)
		return err
	}
	found, none, err := driver.Probe()
	if err != nil {
		return fmt.Errorf("this machine's GPUs: %w; \"troupe doctor\" looks closer, and --devices host:1x4GiB does without them", err)
	}
	if len(found) == 0 {
		cfg.Devices = hostDevices(1, machineMemory()/2)
		s.addNote("No GPU: %s.\nIn its place there is one software GPU with %s.", none, units.FormatBytes(cfg.Devices[0].MemoryBytes))
		return nil
	}
	sources, unseen := healthSources()
	if unseen != nil {
		s.addNote("The health of the GPUs is not observed: %s.", unseen)
	}
	for _, info := range found {
		d, err := driver.Open(info.Index, s.CUBLAS)
		if err != nil {
			return errors.Join(fmt.Errorf("%w; \"troupe doctor\" looks closer", err), closeAll(cfg.GPUs))
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

func describeGPU(info cuda.Info) string {
	text := fmt.Sprintf("%s with %s", info.Name, units.FormatBytes(info.MemoryBytes))
	if info.Simulated {
		text += ", simulated"
	}
	return text
}

// gemmBackend says who computes a device's products.
func gemmBackend(d cuda.Device) string {
	p, err := cuda.As[cuda.Describer](d)
	if err != nil || p.Properties().GEMMBackend == "" {
		return ""
	}
	return "; products by " + p.Properties().GEMMBackend
}

// healthSources are what tells the health of this machine's GPUs, by UUID.
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
