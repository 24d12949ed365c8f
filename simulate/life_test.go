package simulate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"troupe/core/batch"
	"troupe/core/deployment"
	"troupe/core/schedule"
	"troupe/workload"
)

// sleeps returns a deployment that sleeps after a minute without a request.
func sleeps(name string, replicas int, on ...string) Deployment {
	d := deploy(name, replicas, on...)
	d.MinReplicas, d.MaxReplicas, d.IdleAfter, d.Wait = 0, max(1, replicas), time.Minute, true
	return d
}

// TestIdleAfterOfPolicies checks that a deployment without a time of its own sleeps after that of the policies, and
// never without either.
func TestIdleAfterOfPolicies(t *testing.T) {
	for _, c := range []struct {
		own, policies time.Duration
		sleeps        bool
	}{{0, 0, false}, {0, 2 * time.Minute, true}, {time.Hour, 2 * time.Minute, false}} {
		cfg := Config{Duration: 10 * time.Minute, Devices: devices(1), Deployments: []Deployment{sleeps("m", 1)},
			Policies: schedule.Options{IdleAfter: c.policies}}
		cfg.Deployments[0].IdleAfter = c.own
		_, record := simulate(t, cfg, []workload.Request{{At: time.Second, Model: "m", Prompt: 100, Output: 2}})
		if got := strings.Contains(record, `"why":"no request for`); got != c.sleeps {
			t.Errorf("idle after %v, %v by policies: sleeps %t, want %t\n%s", c.own, c.policies, got, c.sleeps,
				lives(record))
		}
	}
}

// TestLivesAtOnce checks the same as TestStepsAtOnce for replicas that are scaled, put to sleep, woken and lost. No
// request is lost: each is finished, or was refused.
func TestLivesAtOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{Duration: 20 * time.Minute, KVReserve: 0.3,
			Devices: devices(rapid.IntRange(1, 4).Draw(t, "devices"))}
		for i := range cfg.Devices {
			cfg.Devices[i].Node = string(rune('a' + i%2))
			cfg.Devices[i].Costs.Capture = time.Duration(rapid.IntRange(1, 5000).Draw(t, "capture")) * time.Millisecond
		}
		cfg.Nodes = []Node{{Name: "a", HostCache: rapid.Int64Range(0, 3).Draw(t, "cache") << 30,
			WeightsDisk: rapid.Int64Range(0, 8).Draw(t, "images") << 30}}
		models := []string{"m", "n", "o"}[:rapid.IntRange(1, 3).Draw(t, "models")]
		for _, name := range models {
			d := deploy(name, 0)
			d.WeightBytes = rapid.Int64Range(1, 5).Draw(t, "weights") << 30
			d.MaxReplicas = rapid.IntRange(1, 3).Draw(t, "most")
			d.MinReplicas = rapid.IntRange(0, 1).Draw(t, "least")
			d.Class = rapid.SampledFrom([]batch.Class{batch.Batch, batch.Standard, batch.Interactive}).Draw(t, "class")
			d.Wait = rapid.IntRange(0, 3).Draw(t, "wait") == 0
			if d.MinReplicas == 0 {
				d.IdleAfter = time.Duration(rapid.IntRange(1, 300).Draw(t, "idle")) * time.Second
				d.Level = rapid.SampledFrom([]deployment.Level{deployment.NoLevel, deployment.OnStandby,
					deployment.Parked}).Draw(t, "level")
			}
			if name == "m" || d.Level != deployment.NoLevel && d.WeightBytes < 2<<30 {
				d.Replicas = 1
			}
			if d.MinReplicas > d.Replicas {
				d.MinReplicas = 0
			}
			cfg.Deployments = append(cfg.Deployments, d)
		}
		for i := range rapid.IntRange(0, 4).Draw(t, "faults") {
			f := Fault{At: time.Duration(i*5)*time.Minute + time.Duration(rapid.IntRange(0, 299999).Draw(t, "at"))*
				time.Millisecond, For: time.Duration(rapid.IntRange(1, 200).Draw(t, "for")) * time.Second}
			slow := rapid.SampledFrom([]float64{1.5, 100}).Draw(t, "slow")
			switch rapid.IntRange(0, 8).Draw(t, "fault") {
			case 0:
				f.Node = "a"
			case 1:
				f.Device = cfg.Devices[0].Node + "/" + cfg.Devices[0].Name
			case 2:
				f.Replica = models[0] + "-0"
			case 3:
				f.Replica, f.Hangs = models[0]+"-0", true
			case 4:
				f.Network = "a"
			case 5:
				f.Network, f.Slow = "a", slow
			case 6:
				f.Between = [2]string{"a", cfg.Devices[len(cfg.Devices)-1].Node}
			case 7:
				f.Disk, f.Slow = "a", slow
			case 8:
				f.Link, f.Slow = cfg.Devices[0].Node+"/"+cfg.Devices[0].Name, slow
			}
			cfg.Faults = append(cfg.Faults, f)
		}
		for i := range rapid.IntRange(0, 4).Draw(t, "commands") {
			c := Command{At: time.Duration(i*4)*time.Minute + time.Duration(rapid.IntRange(0, 239).Draw(t, "at"))*
				time.Second, Name: rapid.SampledFrom(models).Draw(t, "of"), Kind: rapid.SampledFrom([]CommandKind{Scale,
				Park, Standby, Activate, Preempt, Drain, Undrain}).Draw(t, "command")}
			switch c.Kind {
			case Scale:
				c.Replicas = rapid.IntRange(0, 3).Draw(t, "replicas")
			case Preempt:
				c.Name += "-0"
				c.Deadline = time.Duration(rapid.IntRange(1, 60).Draw(t, "deadline")) * time.Second
			case Drain, Undrain:
				c.Name = cfg.Devices[len(cfg.Devices)-1].Node
			}
			cfg.Commands = append(cfg.Commands, c)
		}
		all := poisson(rapid.Uint64().Draw(t, "seed"), rapid.IntRange(1, 60).Draw(t, "requests"),
			time.Duration(rapid.IntRange(1, 15000).Draw(t, "gap"))*time.Millisecond, models...)
		if rapid.Bool().Draw(t, "parts") {
			drawParts(t, &cfg)
			name(cfg, all)
		}
		if err := cfg.Check(); err != nil {
			t.Skip(err)
		}
		result := bothWays(t, cfg, all)
		for _, m := range result.Models {
			if m.Unfinished > 0 && !slices.ContainsFunc(cfg.Deployments, func(d Deployment) bool {
				return d.Name == m.Model && d.Wait
			}) && !slices.ContainsFunc(cfg.Commands, func(c Command) bool { // sequences wait for a preempted replica
				return c.Kind == Preempt && c.Name == m.Model+"-0"
			}) {
				t.Fatalf("%d requests of %s were lost", m.Unfinished, m.Model)
			}
		}
	})
}

// lives returns the lines of a record that are about replicas.
func lives(record string) string {
	var out []string
	for line := range strings.Lines(record) {
		if !strings.Contains(line, `"event":"step"`) && !strings.Contains(line, `"event":"ran"`) &&
			!strings.Contains(line, `"event":"route"`) && !strings.Contains(line, `"event":"finish"`) &&
			!strings.Contains(line, `"event":"turn"`) {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}

// contains reports the lines that a record lacks.
func contains(t *testing.T, record string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(record, line) {
			t.Errorf("the record lacks\n%s\nin\n%s", line, lives(record))
		}
	}
}

// TestWake checks that requests wait while a model wakes, and computes by hand how long that takes: up to a second
// until the planner observes them, the load of 1 GiB from the disk at 256 MiB/s, KV memory and engine, and
// graphs. The second time the weights are still on the device. It goes to sleep with the first plan after a minute
// without a request.
func TestWake(t *testing.T) {
	cfg := Config{Duration: 10 * time.Minute, Devices: devices(1), Deployments: []Deployment{sleeps("m", 0)},
		Nodes: []Node{{Name: "a", Disk: 1 << 28}}}
	result, record := simulate(t, cfg, []workload.Request{{At: time.Minute, Prompt: 100, Output: 5},
		{At: time.Minute + time.Second, Prompt: 100, Output: 5}, {At: 5 * time.Minute, Prompt: 100, Output: 5}})
	m := result.Models[0]
	if m.Finished != 3 || m.Wakes != 2 || m.LoadCount != 1 || m.LoadSeconds != 4 || m.WakeSeconds != 4+2*2.5 ||
		m.Starts != 2 || m.Switches != 0 || fmt.Sprint(m.Loads) != "[{disk 1 4}]" {
		t.Errorf("%+v", m)
	}
	// From 61 s to 127.2 s, and from 301 s to 366.2 s: a minute after it was last seen to have requests.
	if !near(m.DeviceHours, (66.2+65.2)/3600) || !near(result.DeviceHours, m.DeviceHours) {
		t.Errorf("%v device-hours", m.DeviceHours)
	}
	contains(t, record,
		`{"at":61.000000000,"event":"assign","replica":"m-0","why":"1 request waits, and no replica serves; a/gpu-0: `,
		`{"at":67.500000000,"event":"serve","replica":"m-0","device":"a/gpu-0","took":"6.5s"}`,
		`{"at":127.000000000,"event":"withdraw","replica":"m-0","why":"no request for 1m0s"}`,
		`{"at":303.500000000,"event":"serve","replica":"m-0","device":"a/gpu-0","took":"2.5s"}`)
}

// TestWakeBesideAnother checks that a model that wakes on a device where another one serves gets its memory at once.
func TestWakeBesideAnother(t *testing.T) {
	cfg := Config{Duration: 3 * time.Minute, Devices: devices(1),
		Deployments: []Deployment{deploy("m", 1), sleeps("n", 0)}}
	cfg.Deployments[0].MaxSequences = 64 // it has all KV memory
	result, record := simulate(t, cfg, []workload.Request{{At: 60300 * time.Millisecond, Model: "n", Output: 1}})
	contains(t, record, `{"at":61.000000000,"event":"short","replica":"n-0","why":"m-0 yields `,
		// 1 GiB at 2 GB/s, 500 ms and 2 s
		`{"at":64.036870912,"event":"serve","replica":"n-0","device":"a/gpu-0","took":"3.036870912s"}`)
	if n := result.Models[1]; n.Switches != 0 {
		t.Errorf("%d switches, and both models share the device", n.Switches)
	}
}

// TestScale checks that a deployment follows its load: one more replica while sequences wait, with the weights of the
// first, and one less when they are gone.
func TestScale(t *testing.T) {
	d := deploy("m", 1)
	d.MinReplicas, d.MaxReplicas = 1, 3
	cfg := Config{Duration: 20 * time.Minute, Devices: devices(3), Deployments: []Deployment{d}}
	result, record := simulate(t, cfg, poisson(1, 800, 500*time.Millisecond, "m"))
	if m := result.Models[0]; m.Finished != 800 || m.Starts == 0 || m.LoadCount != m.Starts || m.Interrupted != 0 ||
		m.DeviceHours <= 20.0/60 || m.DeviceHours >= 2*20.0/60 {
		t.Errorf("%+v", m)
	}
	contains(t, record, `"event":"assign","replica":"m-1","why":"`, `"source":"device"`,
		`"event":"withdraw","replica":"m-1","why":"`,
		`"event":"scale","deployment":"m","from":2,"to":1,"why":"planned"}`)
}

// TestLivesInReports checks that the table has the lives of replicas only if there are any, and that CSV has the loads
// by source.
func TestLivesInReports(t *testing.T) {
	cfg := Config{Duration: 2 * time.Minute, Devices: devices(1), Deployments: []Deployment{sleeps("m", 0)}}
	woken, _ := simulate(t, cfg, []workload.Request{{At: time.Minute, Output: 1}})
	cfg.Deployments = []Deployment{deploy("m", 1)}
	still, _ := simulate(t, cfg, []workload.Request{{At: time.Minute, Output: 1}})
	for result, want := range map[*Result]bool{&woken: true, &still: false} {
		var table, list strings.Builder
		if err := errors.Join(PrintTable(&table, []Result{*result}), PrintCSV(&list, []Result{*result})); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(table.String(), "STEPS  LOADS  TIME   STARTS  TIME   WAKES  TIME"); got != want ||
			!strings.Contains(table.String(), "REFUSED") {
			t.Errorf("the table has the lives of replicas: %v, want %v\n%s", got, want, table.String())
		}
		lines := strings.Split(list.String(), "\n")
		header, row := strings.Split(lines[0], ","), strings.Split(lines[1], ",")
		at := slices.Index(header, "loads_from_disk")
		if at < 0 || len(header) != len(row) || (row[at] == "1" && row[at+1] == "0.536870912") != want {
			t.Errorf("%q\n%q", header, row)
		}
	}
}

// TestGroup checks that a replica with two devices holds both, loads a part of its weights onto each, and gives both
// back.
func TestGroup(t *testing.T) {
	d := sleeps("m", 0)
	d.Group, d.Priority = 2, schedule.Critical
	cfg := Config{Duration: 5 * time.Minute, Devices: devices(3), Deployments: []Deployment{d, deploy("n", 1)}}
	result, record := simulate(t, cfg, []workload.Request{{At: time.Minute, Model: "m", Prompt: 100, Output: 5}})
	// 1 GiB to each device at a rate of 2 GB/s for both, 500 ms and 2 s; both devices from 61 s to 126.2 s.
	if m := result.Models[0]; m.Finished != 1 || m.LoadCount != 2 || !near(m.DeviceHours, 2*65.2/3600) ||
		!near(result.DeviceHours, 2*65.2/3600+300.0/3600) {
		t.Errorf("%+v, %v device-hours", m, result.DeviceHours)
	}
	contains(t, record, `"event":"serve","replica":"m-0","device":"a/gpu-1","took":"3.573741824s"}`)
	if strings.Contains(record, `"place","replica":"n-0","device":"a/gpu-1"`) {
		t.Error("another model is on the devices of the group")
	}
}

// TestGroupFails checks that a replica with two devices starts again when its second one is lost.
func TestGroupFails(t *testing.T) {
	d := deploy("m", 1)
	d.Group, d.Priority = 2, schedule.Critical
	cfg := Config{Duration: 5 * time.Minute, Devices: devices(4), Deployments: []Deployment{d},
		Faults: []Fault{{At: time.Minute, Device: "a/gpu-1"}}}
	result, record := simulate(t, cfg, []workload.Request{{At: time.Minute - time.Second, Prompt: 100, Output: 500}})
	if m := result.Models[0]; m.Finished != 1 || m.Interrupted != 1 {
		t.Errorf("%+v", m)
	}
	contains(t, record, `"event":"assign","replica":"m-1"`, `"event":"serve","replica":"m-1","device":"a/gpu-2"`)
}
