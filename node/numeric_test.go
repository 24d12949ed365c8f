package node_test

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/x448/float16"

	"troupe/messages"
	"troupe/node"
	"troupe/testkit"
)

// copyWithValue copies a folder and sets the first element of each tensor whose name has the
// suffix.
func copyWithValue(t *testing.T, from, file, suffix string, value float32) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, file)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	length := binary.LittleEndian.Uint64(b)
	header := map[string]json.RawMessage{}
	if err := json.Unmarshal(b[8:8+length], &header); err != nil {
		t.Fatal(err)
	}
	done := 0
	for name, raw := range header {
		if !strings.HasSuffix(name, suffix) {
			continue
		}
		var e struct {
			DType   string `json:"dtype"`
			Offsets [2]int `json:"data_offsets"`
		}
		if err := json.Unmarshal(raw, &e); err != nil {
			t.Fatal(err)
		}
		data := b[8+length:][e.Offsets[0]:e.Offsets[1]]
		switch e.DType {
		case "F32":
			binary.LittleEndian.PutUint32(data, math.Float32bits(value))
		case "F16":
			binary.LittleEndian.PutUint16(data, float16.Fromfloat32(value).Bits())
		default:
			t.Fatalf("%s is of type %s", name, e.DType)
		}
		done++
	}
	if done == 0 {
		t.Fatalf("%s has no tensor %s", path, suffix)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestNaNInAdapter checks that a request fails with the adapter's name if the adapter has a NaN.
// Sequences of other adapters and of the base model in the same steps give their goldens.
func TestNaNInAdapter(t *testing.T) {
	n := start(t, nil)
	broken := specOf("psalms")
	broken.Name = "broken"
	broken.Path = copyWithValue(t, broken.GetPath(), "adapter_model.safetensors", "lora_B.weight", float32(math.NaN()))
	var bad []*client
	var checks []func()
	for range 3 {
		for _, adapter := range shipped {
			g := adapterGoldens(t, adapter)[0]
			spec := adapterSequence("", g)
			spec.Adapter, spec.AdapterSpec = "broken", broken
			bad = append(bad, openSession(t, n, spec))
			good := openSession(t, n, adapterSequence(adapter, g))
			t.Cleanup(func() { <-good.done })
			checks = append(checks, func() { checkOutput(t, "beside NaN", adapter, g, good) })
		}
	}
	for _, check := range checks {
		check()
	}
	generateMixed(t, n, 4)
	for _, c := range bad {
		<-c.done
		if c.failed.GetReason() != messages.Reason_REASON_NUMERIC || !strings.Contains(c.failed.GetDetail(),
			"adapter broken@1 of model kjv computed NaN") || len(c.output) != 0 {
			t.Errorf("%v after %v", c.failed, c.output)
		}
	}
	waitFor(t, "the replica to count the sequences", func() bool {
		r := replica(t, n, "kjv")
		return r.GetSequencesNotFinite() == uint64(len(bad)) && strings.HasPrefix(r.GetNotFinite(),
			"adapter broken@1 of model kjv at ")
	})
	want := `troupe_sequences_not_finite_total{model="kjv",replica="kjv-0"} 12`
	waitFor(t, want, func() bool { return strings.Contains(scrape(t, n), want) })
}

// TestInfinityInModel checks that a request to a model with an infinite weight fails with status
// 500, or with an error event in a stream.
func TestInfinityInModel(t *testing.T) {
	path := copyWithValue(t, testkit.Model(), "model.safetensors", "model.norm.weight", float32(math.Inf(1)))
	n := start(t, func(cfg *node.Config) { cfg.Deployments[0].Path = path })
	for _, stream := range []string{"false", "true"} {
		res, err := http.Post("http://"+n.HTTPAddr()+"/v1/completions", "application/json",
			strings.NewReader(`{"model":"kjv","prompt":"In the beginning","max_tokens":4,"logprobs":2,`+
				`"stream":`+stream+`}`))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != http.StatusInternalServerError || !strings.Contains(string(body),
			"model kjv computed NaN or infinity") {
			t.Errorf("stream %s: %d %s, %v", stream, res.StatusCode, body, err)
		}
	}
}
