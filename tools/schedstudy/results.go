package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"sync"

	"troupe/simulate"
)

// results are all results that are known.
type results struct {
	Capacities map[string][]float64 // requests per second within the SLO of 1, 2 and so on replicas
	Bounds     map[string]float64   // by what is bounded
	Runs       map[string]run       // by row and seed
	mu         sync.Mutex
}

// run is what is kept of a simulation.
type run struct {
	Scenario, Version string // what was simulated, as a digest of the scenario and the code
	DeviceHours       float64
	Steps             uint64
	Models            []modelRun
}

// modelRun is what is kept of a model.
type modelRun struct {
	Name              string
	Requests, Refused int
	Attained          float64 // share of the requests served within the SLO
	TTFT50, TTFT99    float64 // seconds
	DeviceHours, Busy float64
	Loads             int            // of weights onto a device
	From              map[string]int // of these, by source
	Starts, Switches  int
	Unfinished        int
}

func runOf(r simulate.Result) run {
	out := run{DeviceHours: r.DeviceHours, Steps: r.Steps}
	for _, m := range r.Models {
		of := modelRun{Name: m.Model, Requests: m.Requests, Refused: m.Refused, DeviceHours: m.DeviceHours,
			Busy: m.Busy, Loads: m.LoadCount, From: make(map[string]int), Starts: m.Starts, Switches: m.Switches,
			Unfinished: m.Unfinished}
		for _, from := range m.Loads {
			of.From[from.Source] = from.Count
		}
		for _, f := range []struct {
			from *float64
			to   *float64
		}{{m.SLOAttainment, &of.Attained}, {m.TTFTP50, &of.TTFT50}, {m.TTFTP99, &of.TTFT99}} {
			if f.from != nil {
				*f.to = *f.from
			}
		}
		out.Models = append(out.Models, of)
	}
	return out
}

func (r *results) load(path string) error {
	r.Capacities, r.Bounds = make(map[string][]float64), make(map[string]float64)
	r.Runs = make(map[string]run)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(b, r)
}

func (r *results) save(path string) error {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o666)
}
