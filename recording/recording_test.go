package recording

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"troupe/core/route"
)

const good = `{"recording":{"version":1,"began":"2026-11-24T01:52:50Z","troupe":"1.0.0"}}
{"snapshot":{"nodes":[{"name":"n","devices":[{"name":"gpu-0","kind":"x","memory_bytes":9,"kv_reserve":0.3}]}],` +
	`"deployments":[{"name":"m"}],"replicas":[{"name":"m-0","model":"m","node":"n","device":"gpu-0"}]}}
{"request":{"at":2,"node":"n","id":"b","model":"m","prompt":20,"output":12,"block_tokens":16,` +
	`"blocks":["00000000000000ff","0000000000000100"],"ttft":0.1,"took":1,"end":"stop"}}
{"request":{"at":1,"node":"n","id":"a","model":"m","prompt":3,"output":0,"took":0,"end":"refused"}}
{"decision":{"at":2,"node":"n","id":"b","model":"m","saw":{"request":"b","tokens":20,"mean_prefill":256,` +
	`"replicas":[{"name":"m-0","state":"serving","running":0,"waiting":0}]},"choice":"m-0"}}
{"event":{"at":3,"node":"n","kind":"deployment.scaled","subject":"m"}}
{"sample":{"at":3,"replicas":[{"name":"m-0","model":"m","step_seconds":1.5}]}}
{"lost":{"at":3,"node":"n","lines":4,"why":"slow"}}
{"end":{"at":5,"open":1}}
`

func zipped(text string) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return b.Bytes()
}

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r")
	if err := os.WriteFile(path, zipped(good), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Requests) != 2 || r.Requests[0].ID != "a" || !r.Complete || r.End.At != 5 || r.Lost[0].Lines != 4 ||
		r.Events[0].Subject != "m" || r.Samples[0].Replicas[0].StepSeconds != 1.5 ||
		!reflect.DeepEqual(r.Requests[1].Blocks, Hashes{0xff, 0x100}) {
		t.Errorf("%+v", r)
	}
	if different := r.CheckDecisions(route.DefaultWeights); len(different) > 0 {
		t.Error(different)
	}
	r.Decisions[0].Choice = "m-1"
	different := r.CheckDecisions(route.DefaultWeights)
	if len(different) != 1 || !strings.Contains(different[0].String(), "recorded m-1, decided now: m-0: 0 of 20") {
		t.Errorf("%v", different)
	}
	requests, refused := r.Workload()
	if len(requests) != 1 || refused != 1 || requests[0].At != 2e9 || requests[0].PrefixBlock != 16 ||
		len(requests[0].Prefix) != 2 {
		t.Errorf("%+v, %d refused", requests, refused)
	}
}

// TestCut checks that a recording whose writer was killed is read as far as it goes.
func TestCut(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b)
	lines := strings.Split(good, "\n")
	for _, text := range lines[:4] {
		if err := w.WriteText([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := w.WriteText([]byte(lines[4][:30])); err != nil {
		t.Fatal(err)
	}
	r, err := Read(&b, "cut")
	if err != nil || len(r.Requests) != 2 || r.Complete || r.End.At != 2 {
		t.Errorf("%v: %+v", err, r)
	}
}

// TestInvalid checks that each mistake is refused with its line and a remedy.
func TestInvalid(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{`"version":1`, `"version":2,"new":1`, "r:1: recording.version is 2; this program reads version 1"},
		{`"version":1`, `"version":0`, "r:1: recording.version is 0"},
		{`{"recording"`, `{"lost":{"at":0,"node":"n","why":""}}` + "\n" + `{"recording"`, "r:1: is no header"},
		{`{"snapshot"`, `{"recording":{"version":1},"snapshot"`, "r:2: has 2 kinds"},
		{`"model":"m","node"`, `"model":"x","node"`, `r:2: replicas have m-0 of model "x", which is not deployed`},
		{`"device":"gpu-0"`, `"device":"gpu-1"`, "r:2: replicas have m-0 on n/gpu-1, which does not exist"},
		{`"kv_reserve":0.3`, `"kv_reserve":2`, "r:2: nodes have an impossible size of n/gpu-0"},
		{`"prompt":20`, `"prompt":-20`, "r:3: request.prompt is -20, which is no number of tokens; correct"},
		{`"prompt":20`, `"prompt":"many"`, "r:3: request.prompt is not valid: cannot be a string"},
		{`"prompt":20`, `"promt":20`, `r:3: is not valid: unknown field "promt"; correct the line`},
		{`"prompt":20`, `"prompt":2`, "r:3: request.blocks have more tokens than prompt and output"},
		{`00000000000000ff`, `ff`, "r:3: is not valid: a hash has 16 hexadecimal digits"},
		{`"ttft":0.1`, `"ttft":-1`, "r:3: request.ttft is -1, which is no time in seconds"},
		{`"end":"stop"`, `"end":""`, "r:3: request.end is missing"},
		{`"at":1,`, `"at":-1,`, "r:4: at is -1; write seconds since the beginning"},
		{`"state":"serving"`, `"state":"asleep"`, `r:5: is not valid: state "asleep" does not exist`},
		{`"running":0`, `"running":-1`, "r:5: saw is not valid: replica m-0 has a number that cannot be"},
		{`{"event"`, "\n" + `{"event"`, "r:6: is not valid: EOF"},
		{good[strings.Index(good, "{\"snap"):], "", "r:1: ends before the snapshot; record again"},
	} {
		text := strings.Replace(good, c.from, c.to, 1)
		if text == good {
			t.Errorf("%q is not in the recording", c.from)
		}
		if _, err := Read(bytes.NewReader(zipped(text)), "r"); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q: %v\nwant %s", c.to, err, c.want)
		}
	}
	if _, err := Read(strings.NewReader("text"), "r"); err == nil || !strings.HasPrefix(err.Error(),
		"r: is not a recording: ") {
		t.Error(err)
	}
	if _, err := Open("/nowhere"); err == nil {
		t.Error("a file that does not exist is read")
	}
}

// TestPolicyIsThatOfTheRecording makes the decisions of a node again, which troupe record recorded under load: five
// replicas of four places on three devices, with adapters and shared prefixes. A changed policy fails here, and decides
// otherwise on a cluster and in the simulator. If the change is meant, record again.
func TestPolicyIsThatOfTheRecording(t *testing.T) {
	r, err := Open("testdata/decisions.rec.gz")
	if err != nil {
		t.Fatal(err)
	}
	different := r.CheckDecisions(route.DefaultWeights)
	for _, d := range different {
		t.Error(d)
	}
	other := route.DefaultWeights
	other.DefaultTokens /= 2
	if len(r.Decisions) < 200 || len(r.CheckDecisions(other)) == 0 {
		t.Errorf("%d decisions, and another policy makes them all", len(r.Decisions))
	}
}
