package simulate

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestReplay compares a run with its record, and with records that differ in one line.
func TestReplay(t *testing.T) {
	cfg := Config{Name: "s", Duration: time.Hour, Devices: devices(2), Deployments: []Deployment{deploy("m", 2)},
		Origin: Origin{Text: "text <of> the scenario"}}
	all := poisson(1, 300, time.Second, "m")
	_, record := simulate(t, cfg, all)
	cfg.KVReserve = 0.3
	lines := strings.SplitAfter(record, "\n")
	lines = lines[:len(lines)-1]
	replay := func(record string) (*Replay, error) {
		r, err := NewReplay(strings.NewReader(record))
		if err != nil {
			t.Fatal(err)
		}
		cfg.Record = r
		if _, err := Run(cfg, of(all)); err != nil {
			return r, err
		}
		return r, r.Close()
	}
	if r, err := replay(record); err != nil || r.Decisions() != len(lines)-1 || r.Header.Text != cfg.Origin.Text {
		t.Errorf("%d lines are the same, want %d: %v", r.Decisions(), len(lines)-1, err)
	}
	n := len(lines) / 2
	for name, changed := range map[string]struct {
		record string
		at     int
		want   string
	}{
		"a line less":  {strings.Join(append(lines[:n:n], lines[n+1:]...), ""), n + 1, "recorded: at "},
		"a line more":  {record + lines[n], len(lines) + 1, "replayed: nothing, it ends before"},
		"without end":  {strings.Join(lines[:n], ""), n + 1, "recorded: nothing, it ends before"},
		"half a line":  {record[:len(record)-20], len(lines), "recorded: {"},
		"other header": {strings.Replace(record, `"seed":0`, `"seed":1`, 1), 1, "seed was 1 and is 0"},
	} {
		_, err := replay(changed.record)
		if d := (*Difference)(nil); !errors.As(err, &d) || d.Line != changed.at ||
			!strings.Contains(err.Error(), changed.want) {
			t.Errorf("%s: %v\nwant line %d and %q", name, err, changed.at, changed.want)
		}
	}
	for _, none := range []string{"", "{}", "text", `{"simulated":true,"scenario":"old","seed":1}`} {
		if _, err := NewReplay(strings.NewReader(none)); err == nil {
			t.Errorf("%q is taken for a record", none)
		}
	}
}

// TestChanges describes what differs between two lines.
func TestChanges(t *testing.T) {
	for _, c := range []struct{ a, b, want string }{
		{`{"a":1,"b":[{"c":"x"}]}`, `{"a":1,"b":[{"c":"y"}]}`, "b[0].c was x and is y"},
		{`{"a":1}`, `{"b":2}`, "a was 1 and is missing; b is new: 2"},
		{`{"a":1}`, `{"a": 1}`, "only the form of the lines"},
		{`{"a":[1,2,3,4,5,6,7]}`, `{"a":[0,0,0,0,0,0,0]}`, "a[0] was 1 and is 0; a[1] was 2 and is 0; " +
			"a[2] was 3 and is 0; a[3] was 4 and is 0; a[4] was 5 and is 0; and 2 more"},
	} {
		if got := changesOf(c.a, c.b); got != c.want {
			t.Errorf("%s and %s: %s\nwant %s", c.a, c.b, got, c.want)
		}
	}
	got := inWords(`{"at":1.500000000,"event":"step","replica":"m-0","entries":[["r1",0,5]],` +
		`"of":[{"n":"a","x":1}],"e":{}}`)
	if want := "at 1.5 s, step: replica m-0, entries [[r1 0 5]], of a (x 1), e {}"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
