package main

import (
	"fmt"
	"os"
	"time"

	"troupe/core/cost"
	"troupe/simulate/scenario"
)

func main() {
	s, err := scenario.Read("examples/scenarios/scheduler-day.yaml", func(string) (cost.Model, error) { return cost.Model{}, nil })
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for _, d := range s.Config.Deployments {
		if len(os.Args) > 1 && os.Args[1] != d.Name {
			continue
		}
		for _, n := range []int{1, 2, 4} {
			began := time.Now()
			load, _ := s.Generator(d.Name)
			c, err := capacityOf(s.Config, d.Name, load, n, 0.99)
			fmt.Println(d.Name, n, c, c/float64(n), err, time.Since(began))
		}
	}
}
