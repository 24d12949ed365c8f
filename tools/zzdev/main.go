package main

import (
	"fmt"
	"os"
	"runtime/pprof"
	"strings"
	"time"

	"troupe/core/cost"
	"troupe/simulate"
	"troupe/simulate/scenario"
)

func main() {
	var set []simulate.Setting
	var rec, prof string
	for _, a := range os.Args[2:] {
		if k, v, ok := strings.Cut(a, "="); ok {
			switch k {
			case "record":
				rec = v
			case "prof":
				prof = v
			default:
				set = append(set, simulate.Setting{Key: k, Value: v})
			}
		}
	}
	s, err := scenario.Read(os.Args[1], func(string) (cost.Model, error) { return cost.Model{}, nil }, set...)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	src, err := s.Requests(s.Config.Seed)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	cfg := s.Config
	if rec != "" {
		f, _ := os.Create(rec)
		cfg.Record = f
		defer f.Close()
	}
	if prof != "" {
		f, _ := os.Create(prof)
		pprof.StartCPUProfile(f)
		defer pprof.StopCPUProfile()
	}
	b := time.Now()
	r, err := simulate.Run(cfg, src)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	simulate.PrintTable(os.Stdout, []simulate.Result{r})
	fmt.Println("wall", time.Since(b), "device-hours", r.DeviceHours)
}
