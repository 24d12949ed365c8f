package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"troupe/cluster/bulk/bulkbench"
	"troupe/core/cost"
	"troupe/cuda"
	"troupe/cuda/host"
	"troupe/engine"
	"troupe/engine/calibrate"
	"troupe/engine/llama"
	"troupe/internal/costfile"
	"troupe/node"
)

type calibrateCommand struct {
	Model        []string      `placeholder:"DIR" type:"path" help:"${calmodel}"`
	Devices      string        `default:"auto"`
	CUBLAS       string        `name:"cublas" default:"auto"`
	Time         time.Duration `placeholder:"DURATION" default:"1m" help:"${caltime}"`
	Out          string        `placeholder:"DIR" type:"path" help:"${calout}"`
	StepTokens   int           `default:"512" help:"Most tokens in a step, as in the deployment."`
	MaxSequences int           `default:"64" help:"Most sequences in a step, as in the deployment."`
	Network      string        `placeholder:"TICKET" help:"${calnetwork}"`
	NetworkAt    string        `name:"network-listen" placeholder:"HOST:PORT" help:"${calnetworkat}"`
}

const shippedModel = "models/kjv-2m"

func (calibrateCommand) Help() string {
	return `Measures what the models cost on the first device of this machine, with the engine of "troupe up": steps by
prompt tokens, sequences and context; copies between host, device and disk by size; loads of the weights from the
folder, an image on disk and host memory; and the parts of a switch. A second device is measured as the source of
copies.

It fits the costs of core/cost to the measurements, prints them, and writes a profile for each model. The residuals are
relative errors of measurements that the fit did not see. If repeats of the same step differ by much, the machine was
too busy: calibrate again when it is idle. Do not calibrate beside a node that serves.

The network between two nodes is measured with the data plane of nodes, without TLS: run "troupe calibrate
--network-listen HOST:PORT" on the machine that receives, and give the ticket that it prints to --network on the other.

The time is that of all measurements. Each is repeated at least three times, so a slow device or a large model takes
longer. More models give the loads a latency and a bandwidth instead of a bandwidth alone.

Examples:

  troupe calibrate                                   the model that ships, on a GPU or a software GPU
  troupe calibrate --model /models/llama --time 5m
  troupe calibrate --model /models/a --model /models/b --out profiles
  troupe calibrate --devices host:2x1GiB             two software GPUs, to measure copies between them
  troupe calibrate --network-listen 10.0.0.2:7000    receive what another machine sends, to measure the network`
}

// Run calibrates, prints the profiles and writes them.
func (k calibrateCommand) Run(c console) (err error) {
	if k.NetworkAt != "" {
		return receiveNetwork(signalContext(), c, k.NetworkAt)
	}
	if err := k.complete(); err != nil {
		return &usageError{err}
	}
	if err := os.MkdirAll(k.Out, 0o700); err != nil {
		return err
	}
	devices, notes, err := openForMeasuring(k.Devices, k.CUBLAS)
	if err != nil {
		return err
	}
	defer func() {
		for _, d := range devices {
			err = errors.Join(err, d.Close())
		}
	}()
	for _, note := range notes {
		fmt.Fprintln(c.log, note)
	}
	scratch, err := os.MkdirTemp(k.Out, ".calibrate-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	ctx := signalContext()
	show := &progress{to: c.log, terminal: writesTerminal(c.log)}
	node.SetGCPercent() // as in a node
	network, err := k.measureNetwork(ctx, devices[0], show)
	if err != nil {
		show.end()
		return err
	}
	profiles, err := calibrate.Run(ctx, k.config(devices, scratch, show))
	show.end()
	if ctx.Err() != nil {
		return errors.New("calibration stopped; nothing was written")
	}
	if err != nil {
		return fmt.Errorf("calibrate: %w", err)
	}
	for _, p := range profiles {
		p.Copies.Network = network
		printProfile(c.out, p)
		path := filepath.Join(k.Out, fileName(p))
		if err := costfile.Write(path, p); err != nil {
			return err
		}
		fmt.Fprintf(c.out, "\nWritten to %s\n", path)
	}
	return nil
}

// complete checks the options and fills in those that are not set.
func (k *calibrateCommand) complete() error {
	switch {
	case k.Time <= 0:
		return fmt.Errorf("--time %v must be more than 0; write it like 1m", k.Time)
	case k.StepTokens < 16 || k.StepTokens > 1<<17:
		return fmt.Errorf("--step-tokens %d is not between 16 and %d", k.StepTokens, 1<<17)
	case k.MaxSequences < 4 || k.MaxSequences > 4096:
		return fmt.Errorf("--max-sequences %d is not between 4 and 4096", k.MaxSequences)
	}
	if _, err := parseDevices(k.Devices); err != nil {
		return fmt.Errorf("--devices: %w", err)
	}
	if _, err := bulkbench.ParseTicket(k.Network); err != nil && k.Network != "" {
		return fmt.Errorf("--network: %w", err)
	}
	if len(k.Model) == 0 {
		if _, err := os.Stat(shippedModel); err != nil {
			return fmt.Errorf("%s is not in this folder; set --model DIR", shippedModel)
		}
		k.Model = []string{shippedModel}
	}
	if k.Out == "" {
		data, err := defaultData(machineName())
		if err != nil {
			return err
		}
		k.Out = filepath.Join(data, profilesFolder)
	}
	return nil
}

func (k calibrateCommand) config(devices []cuda.Device, scratch string, show *progress) calibrate.Config {
	cfg := calibrate.Config{
		Device: devices[0], Loader: llama.Loader{}, Models: k.Model, Scratch: scratch,
		Time: k.Time, Limits: engine.Limits{StepTokens: k.StepTokens, MaxSequences: k.MaxSequences}, BlockTokens: 16,
		On: describeMachine(devices[0]), Progress: show.report,
	}
	if len(devices) > 1 {
		cfg.Peer = devices[1]
	}
	return cfg
}

// openForMeasuring opens the first two devices that "troupe up" would use.
func openForMeasuring(devices, cublas string) (opened []cuda.Device, notes []string, err error) {
	s := settings{Options: Options{Devices: devices, CUBLAS: cublas}}
	var cfg node.Config
	if err := s.openDevices(&cfg); err != nil {
		return nil, nil, err
	}
	for i, gpu := range cfg.GPUs {
		if opened = append(opened, gpu.Device); i > 1 {
			err = errors.Join(err, gpu.Close())
		}
	}
	for i, software := range cfg.Devices {
		if i > 1 || err != nil {
			break
		}
		var d cuda.Device
		if d, err = host.Open(software); err == nil {
			opened = append(opened, d)
		}
	}
	return opened[:min(2, len(opened))], s.notes, err
}

// describeMachine describes a device and the machine, with its load before the calibration.
func describeMachine(d cuda.Device) string {
	text := fmt.Sprintf("%s, %d cores, %s/%s, troupe %s", d.Info().Name, runtime.NumCPU(), runtime.GOOS, runtime.GOARCH,
		version())
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		text += ", load average before " + strings.Join(strings.Fields(string(b))[:2], " ")
	}
	return text
}

// fileName returns the name of a profile's file: "kjv-2m-on-host-device.yaml".
func fileName(p cost.Profile) string {
	dashed := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.', r == '_':
			return r
		}
		return '-'
	}, strings.ToLower(p.Name))
	return dashed + ".yaml"
}
