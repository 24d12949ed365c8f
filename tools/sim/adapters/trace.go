package adapters

import (
	"encoding/csv"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"time"
)

// request is a request of a trace.
type request struct {
	at             time.Duration
	adapter        string
	prompt, output int // tokens
}

// Load describes a synthetic load.
type Load struct {
	Adapters       int
	PerSecond      float64 // arrivals are a Poisson process
	Zipf           float64 // exponent: the request probability of adapter i is proportional to i^-Zipf
	Prompt, Output float64 // tokens, means of exponential distributions, capped at 2,048
	Length         time.Duration
}

var thousandAdapters = Load{Adapters: 1000, PerSecond: 200, Zipf: 1.2, Prompt: 64, Output: 32, Length: 4 * time.Minute}

// trace generates a trace of the load.
func (l Load) trace(seed uint64) []request {
	r := rand.New(rand.NewPCG(seed, 0))
	zipf := rand.NewZipf(r, l.Zipf, 1, uint64(l.Adapters-1))
	tokens := func(mean float64) int { return min(2048, 1+int(r.ExpFloat64()*mean)) }
	var all []request
	for at := time.Duration(0); at < l.Length; at += seconds(r.ExpFloat64() / l.PerSecond) {
		all = append(all, request{at, name(int(zipf.Uint64())), tokens(l.Prompt), tokens(l.Output)})
	}
	return all
}

func name(i int) string { return fmt.Sprintf("adapter-%04d", i) }

// readTrace reads lines of req_id,arrival_s,adapter,prompt_len,output_len.
func readTrace(path string) ([]request, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var all []request
	for i, row := range rows[1:] {
		at, err1 := strconv.ParseFloat(row[1], 64)
		prompt, err2 := strconv.Atoi(row[3])
		output, err3 := strconv.Atoi(row[4])
		if err1 != nil || err2 != nil || err3 != nil {
			return nil, fmt.Errorf("%s: line %d: invalid request %v", path, i+2, row)
		}
		all = append(all, request{seconds(at), row[2], max(1, prompt), max(1, output)})
	}
	return all, nil
}
