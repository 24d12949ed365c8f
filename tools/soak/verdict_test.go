package main

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// history returns half an hour of samples of two nodes, with noise, spikes, and a leak in one
// series of one node.
func history(leaking int, perMinute float64) (all []sample) {
	random := rand.New(rand.NewPCG(1, 2))
	for at := time.Duration(0); at < 30*time.Minute; at += 5 * time.Second {
		for _, node := range []string{"n1", "n2"} {
			s := sample{node: node, at: at, values: [4]float64{40, 600, 300, 50}}
			for i := range s.values {
				s.values[i] *= 1 + 0.05*random.NormFloat64()
				if random.IntN(10) == 0 {
					s.values[i] *= 2 // a model is loading
				}
			}
			if node == "n2" && leaking >= 0 {
				s.values[leaking] += perMinute * at.Minutes()
			}
			all = append(all, s)
		}
	}
	return all
}

func TestVerdict(t *testing.T) {
	if text, err := judge(history(-1, 0)); err != nil {
		t.Errorf("nothing grows: %v\n%s", err, text)
	}
	for i, name := range series {
		_, err := judge(history(i, 2*bounds[i]/15))
		if err == nil || !strings.HasPrefix(err.Error(), name+" of n2 grows") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s leaks: %v", name, err)
		}
	}
}

// TestTheilSen checks the slope with a quarter of the points as outliers.
func TestTheilSen(t *testing.T) {
	var x, y []float64
	for i := range 100 {
		x, y = append(x, float64(i)), append(y, 3*float64(i))
		if i%4 == 0 {
			y[i] = 1000
		}
	}
	if got := theilSen(x, y); got < 2.5 || got > 3.5 {
		t.Errorf("slope %g, want about 3", got)
	}
}
