package adapters

import (
	"time"

	"troupe/workload"
)

var thousandAdapters = workload.Load{
	Length: 4 * time.Minute, Rate: 200, Adapters: workload.Names{Name: "adapter", Count: 1000, Zipf: 1.2},
	Prompt: workload.Lengths{Exponential: 64, Max: 2048}, Output: workload.Lengths{Exponential: 32, Max: 2048},
}

// generate returns the requests of a load.
func generate(l workload.Load, seed uint64) []workload.Request {
	all, err := workload.Collect(l.Requests(seed))
	if err != nil {
		panic(err) // the loads of this package are valid
	}
	return all
}

// readTrace reads the requests of a trace.
func readTrace(path string) ([]workload.Request, error) {
	trace, err := workload.Open(path, workload.Options{})
	if err != nil {
		return nil, err
	}
	return workload.Collect(trace)
}
