package scenario

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"troupe/simulate"
)

// TestSet sets keys by number and by name: those of the file and others, in lists, sections and maps.
func TestSet(t *testing.T) {
	source, err := os.ReadFile(shipped + "/shared-device.yaml")
	if err != nil {
		t.Fatal(err)
	}
	parse := func(set ...simulate.Setting) (*Scenario, error) {
		return Parse("x.yaml", source, facts, set...)
	}
	plain, err := parse()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		key, value string
		of         func(*File) any
		want       any
	}{
		{"deployments[1].replicas", "2", func(f *File) any { return *f.Deployments[1].Replicas }, 2},
		{"deployments.nightly.max_waiting", "7", func(f *File) any { return *f.Deployments[1].MaxWaiting }, 7},
		{"deployments.chat.slo.ttft", "1s", func(f *File) any { return f.Deployments[0].SLO.TTFT.String() }, "1s"},
		{"deployments.chat.devices", "[a/gpu-0]", func(f *File) any { return f.Deployments[0].Devices[0] }, "a/gpu-0"},
		{"nodes.a.devices[0].count", "3", func(f *File) any { return f.Nodes[0].Devices[0].Count }, 3},
		{"models.small-1b.steps.small.fixed_us", "9",
			func(f *File) any { return f.Models[0].Steps["small"].FixedUS }, 9.0},
		{"models[0].facts.layers", "4", func(f *File) any { return f.Models[0].Facts.Layers }, 4},
		{"workload.nightly.rate", "0.5", func(f *File) any { return f.Workload[1].Rate }, 0.5},
		{"workload.nightly.output", "{exponential: 3}",
			func(f *File) any { return f.Workload[1].Output.Exponential }, 3.0},
		{"workload[0].conversation.turns", "2", func(f *File) any { return f.Workload[0].Conversation.Turns }, 2.0},
		{"kv_reserve", "0.5", func(f *File) any { return *f.KVReserve }, 0.5},
		{"duration", "2m", func(f *File) any { return f.Duration.String() }, "2m0s"},
	} {
		s, err := parse(simulate.Setting{Key: c.key, Value: c.value})
		if err != nil {
			t.Error(err)
			continue
		}
		if got := c.of(s.file); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s is %v, want %v", c.key, got, c.want)
		}
	}
	if again, err := parse(); err != nil || !reflect.DeepEqual(again.file, plain.file) {
		t.Errorf("settings are left over: %v", err)
	}
	for _, c := range []struct{ setting, want string }{
		{"deployments[0].replica=2", "there is no key deployments[0].replica in x.yaml; the nearest is " +
			"deployments[0].replicas"},
		{"deployments.chta.replicas=2", "the nearest is deployments.chat.replicas"},
		{"deployments[2].replicas=2", "the nearest is deployments[0].replicas"},
		{"workload.nightly.rates=2", "the nearest is workload.nightly.rate"},
		{"max_sequences=2", "the nearest is deployments[0].max_sequences"},
		{"models[0].steps.large.form=max", "the nearest is models[0].steps.small.form"},
		{"deployments.chat.replicas=many", "deployments.chat.replicas cannot be many: this must be a whole number"},
		{"deployments.chat.slo.ttft=soon", `deployments[0].slo.ttft is "soon"; write a duration`},
		{"deployments.chat.max_sequences=0", "deployments[0].max_sequences is 0; write a number from 1 to 4096"},
		{"workload.nightly.output={mean: 3}", "unknown field"},
	} {
		key, value, _ := strings.Cut(c.setting, "=")
		if _, err := parse(simulate.Setting{Key: key, Value: value}); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nwant %q", c.setting, err, c.want)
		}
	}
}

// TestSetByName sets keys of elements whose names have dots, and refuses names that stand for two elements.
func TestSetByName(t *testing.T) {
	source, err := os.ReadFile(shipped + "/shared-device.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dotted := strings.ReplaceAll(string(source), " chat\n", " nightly.b\n")
	s, err := Parse("x.yaml", []byte(dotted), facts,
		simulate.Setting{Key: "deployments.nightly.b.replicas", Value: "2"},
		simulate.Setting{Key: "deployments.nightly.replicas", Value: "3"})
	if err != nil {
		t.Fatal(err)
	}
	if d := s.Config.Deployments; d[0].Replicas != 2 || d[1].Replicas != 3 {
		t.Errorf("%d and %d replicas, want 2 and 3", d[0].Replicas, d[1].Replicas)
	}
	twice := strings.ReplaceAll(string(source), "- deployment: nightly\n", "- deployment: chat\n")
	_, err = Parse("x.yaml", []byte(twice), facts, simulate.Setting{Key: "workload.chat.rate", Value: "2"})
	if err == nil || !strings.Contains(err.Error(), "there is no key workload.chat.rate") {
		t.Error(err)
	}
}

// TestGrid checks the points of grids, and the errors of those that are none.
func TestGrid(t *testing.T) {
	points, err := Grid([]string{"a=1,2", `b=[x,y],{c: 1, d: 2}, "e,f"`})
	var text []string
	for _, p := range points {
		text = append(text, p[0].String()+" "+p[1].String())
	}
	if got, want := strings.Join(text, "; "), `a=1 b=[x,y]; a=1 b={c: 1, d: 2}; a=1 b="e,f"; `+
		`a=2 b=[x,y]; a=2 b={c: 1, d: 2}; a=2 b="e,f"`; got != want || err != nil {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
	for _, c := range []struct{ axes, want string }{
		{"a", "has no values; write key=a,b,c"}, {"=1", "has no values"}, {"a=,", "has no values"},
		{"a=1 a=2", "a is there twice"},
		{"a=" + strings.Repeat("1,", 16) + "2 b=" + strings.Repeat("1,", 15) + "2", "more than 256 points with b"},
	} {
		if _, err := Grid(strings.Fields(c.axes)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.axes, err, c.want)
		}
	}
}
