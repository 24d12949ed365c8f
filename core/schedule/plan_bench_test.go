package schedule

import (
	"fmt"
	"testing"
	"time"

	"troupe/core/hbm"
)

// benchPool returns a pool in which each model has a quarter of its replicas too few.
func benchPool(devices, models int) Snapshot {
	s := Snapshot{At: began}
	for i := range devices {
		s.Devices = append(s.Devices, Device{Name: fmt.Sprintf("n%d/gpu-%d", i/8, i%8), Node: fmt.Sprintf("n%d", i/8),
			Memory: 140 * gib, KVReserve: 0.3, Utilization: float64(i%10) / 10})
	}
	for i := range models {
		m := Model{Name: fmt.Sprintf("m%d", i), Priority: Priority(i % 4), Group: 1 + i%5/4, Min: 1, Max: 8,
			Sized:   true,
			Weights: int64(10+i%30) * gib, Need: hbm.Need{Fixed: gib, Min: 4 * gib, MinAlone: gib, Max: 60 * gib},
			SLO: DefaultSLO(Priority(i % 4))}
		m.Demand = Demand{Rate: 2, Recent: 2, TTFT: time.Duration(i%12) * 100 * time.Millisecond, TPOT: -1,
			Running: 20 * (i % 3), KV: 0.5, Utilization: 0.3, Last: began, Places: 16}
		s.Models = append(s.Models, m)
	}
	return s
}

// BenchmarkMake plans from an empty pool and from one that carried out plans.
func BenchmarkMake(b *testing.B) {
	for _, size := range []struct{ devices, models int }{{16, 4}, {1000, 200}, {16, 10_000}} {
		p := &pool{Snapshot: benchPool(size.devices, size.models), work: make(map[string]int)}
		for _, m := range p.Models {
			p.work[m.Name] = m.Demand.Running
		}
		for _, name := range []string{"empty", "running", "full"} {
			b.Run(fmt.Sprintf("%d devices, %d models, %s", size.devices, size.models, name), func(b *testing.B) {
				for b.Loop() {
					Make(p.Snapshot)
				}
			})
			for range 3 {
				p.carryOut(Make(p.Snapshot), 90*time.Second)
			}
			for i := range p.Models {
				p.Models[i].Max = 80
				p.work[p.Models[i].Name] = 400
			}
		}
	}
}
