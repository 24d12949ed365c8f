package cost

import (
	"math"
	"testing"
	"time"
)

func TestFitLinear(t *testing.T) {
	known := Linear{LatencyUS: 12, BytesPerSecond: 5e9}
	var all []Transfer
	for bytes := int64(4 << 10); bytes <= 64<<20; bytes *= 4 {
		all = append(all, Transfer{bytes, known.Time(bytes)})
	}
	got, residuals, err := FitLinear(all)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(got.LatencyUS-12) > 0.1 || math.Abs(got.BytesPerSecond-5e9) > 1e7 {
		t.Errorf("got %+v", got)
	}
	if residuals.Count != len(all) || residuals.Worst > 0.01 {
		t.Errorf("residuals %v", residuals)
	}
	if took := got.Time(5e9); took < time.Second || took > 1010*time.Millisecond {
		t.Errorf("5 GB take %v", took)
	}
}

// TestFitLinearOfOneSize checks that a single size gives a bandwidth alone, which is in proportion.
func TestFitLinearOfOneSize(t *testing.T) {
	got, residuals, err := FitLinear([]Transfer{{1000, 9 * time.Microsecond}, {1000, 11 * time.Microsecond}})
	if err != nil || got.LatencyUS != 0 || got.Time(1000) < 9*time.Microsecond || got.Time(1000) > 11*time.Microsecond {
		t.Errorf("got %+v, %v", got, err)
	}
	if residuals.Count != 2 || residuals.WorstAt != "1000 B" {
		t.Errorf("residuals %v", residuals)
	}
}

// TestFitLinearHoldsOut checks that the residual of a size is that of a line through the others.
func TestFitLinearHoldsOut(t *testing.T) {
	all := []Transfer{{1e6, 1e6}, {2e6, 2e6}, {4e6, 4e6}, {8e6, 16e6}}
	_, residuals, err := FitLinear(all)
	if err != nil || math.Abs(residuals.Worst-0.5) > 0.01 {
		t.Errorf("residuals %v, %v; want a worst one of 0.5", residuals, err)
	}
}

func TestFitLinearRefuses(t *testing.T) {
	for _, all := range [][]Transfer{nil, {{0, 1}}, {{1, 0}}} {
		if _, _, err := FitLinear(all); err == nil {
			t.Errorf("%v is accepted", all)
		}
	}
}
