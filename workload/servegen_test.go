package workload

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// quantilesJSON returns 101 quantiles from low to high.
func quantilesJSON(low, high float64) string {
	q := make([]float64, servegenQuantiles)
	for i := range q {
		q[i] = low + (high-low)*float64(i)/100
	}
	b, _ := json.Marshal(q)
	return string(b)
}

const rateHeader = "client,t_s,rate,cv,dist,shape,scale"

func lengthsJSON(clients ...string) string {
	var all []string
	for _, c := range clients {
		all = append(all, `"`+c+`": {"0": {"input_tokens": `+quantilesJSON(10, 20)+
			`, "output_tokens": `+quantilesJSON(1, 2)+
			`}, "600": {"text_tokens": `+quantilesJSON(100, 100)+`, "image_tokens": `+quantilesJSON(50, 50)+
			`, "output_tokens": `+quantilesJSON(9, 9)+`}}`)
	}
	return "{" + strings.Join(all, ",") + "}"
}

// TestServeGen checks that each window has as many requests of each client as the rates say, and lengths of the time
// of the day, whatever part of the trace is generated.
func TestServeGen(t *testing.T) {
	rates := lines(rateHeader, "7,0,0.5,1.4,G,0.5,9", "7,600,1,2,W,0.5,9", "8,600,0.25,1,G,1,9")
	lengths := lengthsJSON("7", "8", "9")
	s, err := ReadServeGen(strings.NewReader(rates), strings.NewReader(lengths), Options{Model: "m"}, "l")
	if err != nil {
		t.Fatal(err)
	}
	if s.Span() != 20*time.Minute || s.OmitUnknown() != 0 {
		t.Errorf("span %s", s.Span())
	}
	all, err := Collect(s.Requests(1, 0, time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, r := range all {
		window := map[bool]string{true: "first", false: "second"}[r.At < servegenWindow]
		counts[r.Client+" "+window]++
		if first := r.Prompt >= 10 && r.Prompt <= 20 && r.Output <= 2; first != (window == "first") ||
			!first && (r.Prompt != 150 || r.Output != 9) || r.Model != "m" {
			t.Errorf("%+v", r)
		}
	}
	if len(counts) != 3 || counts["7 first"] != 300 || counts["7 second"] != 600 || counts["8 second"] != 150 {
		t.Error(counts)
	}
	later, err := Collect(s.Requests(1, 15*time.Minute, 20*time.Minute))
	i := slices.IndexFunc(all, func(r Request) bool { return r.At >= 15*time.Minute })
	if err != nil || len(later) != len(all)-i || later[0].At != all[i].At-15*time.Minute {
		t.Errorf("%d requests from 15 minutes on, want %d; %v", len(later), len(all)-i, err)
	}
}

// TestServeGenGaps checks the CV of the gaps against that of their distributions. A gamma distribution has
// 1/sqrt(shape), a Weibull distribution with shape 0.5 has sqrt(5).
func TestServeGenGaps(t *testing.T) {
	for row, want := range map[string]float64{
		"1,0,100,0,G,0.25,0": 2, "1,0,100,0,W,0.5,0": math.Sqrt(5), "1,0,100,0,G,4,0": 0.5,
	} {
		rates := strings.NewReader(lines(rateHeader, row))
		s, err := ReadServeGen(rates, strings.NewReader(lengthsJSON("1")), Options{}, "l")
		if err != nil {
			t.Fatal(err)
		}
		m, err := Measure(s.Requests(1, 0, time.Hour))
		if err != nil || m.Requests != 60_000 || math.Abs(m.CV/want-1) > 0.05 {
			t.Errorf("%s: CV %.3f of %d requests, want %.3f; %v", row, m.CV, m.Requests, want, err)
		}
	}
}

// TestOmitUnknown checks the share of the requests of clients without lengths.
func TestOmitUnknown(t *testing.T) {
	rates := lines(rateHeader, "7,0,0.5,1.4,G,0.5,9", "8,600,1.5,1,G,1,9")
	s, err := ReadServeGen(strings.NewReader(rates), strings.NewReader(lengthsJSON("7")), Options{}, "l")
	if err != nil || s.OmitUnknown() != 0.75 {
		t.Fatal(err)
	}
	if all, err := Collect(s.Requests(1, 0, time.Hour)); err != nil || len(all) != 300 {
		t.Errorf("%d requests, %v", len(all), err)
	}
}

// TestServeGenErrors checks that invalid rates and lengths are refused with their place and a remedy.
func TestServeGenErrors(t *testing.T) {
	good := lengthsJSON("7")
	for _, c := range []struct{ rates, lengths, want string }{
		{"client,t_s", good, "r:1: column rate is missing"},
		{lines(rateHeader, "7,0,0.5,1.4,X,0.5,9"), good, `r:2: dist "X" is not a distribution`},
		{lines(rateHeader, "7,0,0.5,1.4,G,0,9"), good, `r:2: shape "0" is not positive`},
		{lines(rateHeader, "7,0,x,1.4,G,1,9"), good, `r:2: rate "x" is not a number`},
		{lines(rateHeader, "7,600,1,1,G,1,9", "7,0,1,1,G,1,9"), good, `r:3: t_s "0" is not after`},
		{lines(rateHeader, "7,0,1,1,G,1,9"), "[", "l: is not JSON of lengths"},
		{lines(rateHeader, "7,0,1,1,G,1,9"), `{"7": {"0": {"input_tokens": [1]}}}`,
			"l: client 7, 0, input_tokens has 1 numbers"},
		{lines(rateHeader, "7,0,1,1,G,1,9"), `{"7": {"noon": {}}}`, "l: client 7, noon, time is not a second"},
		{lines(rateHeader, "7,0,1,1,G,1,9"), `{"7": {"0": {}}}`, "l: client 7, 0, lengths are missing"},
		{lines(rateHeader, "7,0,1,1,G,1,9"), "{}", "l: client 7 has no lengths, but requests at 0s; add its lengths"},
	} {
		s, err := ReadServeGen(strings.NewReader(c.rates), strings.NewReader(c.lengths), Options{File: "r"}, "l")
		if err == nil {
			_, err = Collect(s.Requests(1, 0, time.Hour))
		}
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
