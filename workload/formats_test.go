package workload

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// lines joins lines of a file.
func lines(all ...string) string { return strings.Join(all, "\n") + "\n" }

const (
	mooncakeLine = `{"timestamp": 0, "input_length": 700, "output_length": 20, "hash_ids": [3, 4]}`
	azureHeader  = "TIMESTAMP,ContextTokens,GeneratedTokens"
	arenaHeader  = "req_id,arrival_s,adapter,prompt_len,output_len"
	imageHeader  = "gmt_create,prompt_length,num_images_per_prompt,num_inference_steps,checkpoint_model_version_id"
)

// TestFormats reads each format from a file, plain and compressed, twice from the same source.
func TestFormats(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []Request
	}{
		"mooncake": {
			lines(mooncakeLine, "", `{"timestamp": 27.5, "input_length": 0, "output_length": 1, "extra": true}`),
			[]Request{
				{Model: "m", Prompt: 700, Output: 20, Prefix: []uint64{3, 4}, PrefixBlock: 512},
				{At: 27500 * time.Microsecond, Model: "m", Prompt: 1, Output: 1},
			},
		},
		"azure": {
			lines(azureHeader, "2023-11-16 18:17:03.9799600,4808,10", "2023-11-16 18:17:04.0319600,3180,8"),
			[]Request{
				{Model: "m", Prompt: 4808, Output: 10},
				{At: 52 * time.Millisecond, Model: "m", Prompt: 3180, Output: 8},
			},
		},
		"azure with zones": {
			lines("\ufeffGeneratedTokens,ContextTokens,TIMESTAMP", "1,2,2024-05-10 00:00:00.009930+00:00",
				"3,4,2024-05-10 01:00:00.009930+01:00"),
			[]Request{{Model: "m", Prompt: 2, Output: 1}, {Model: "m", Prompt: 4, Output: 3}},
		},
		"adapters": {
			lines(arenaHeader, "0,0.0,a-13,13,199", "1,0.25,a-2,36,137"),
			[]Request{
				{Model: "m", Adapter: "a-13", Prompt: 13, Output: 199},
				{At: 250 * time.Millisecond, Model: "m", Adapter: "a-2", Prompt: 36, Output: 137},
			},
		},
		"images": {
			lines(imageHeader, "2024-11-15 16:57:50,63.0,4.0,30.0,M0000", "2024-11-15 16:57:51,,,,",
				"2024-11-15 16:57:52,,1.0,40.0,M0001"),
			[]Request{
				{Model: "M0000", Prompt: 63, Output: 120}, {At: 2 * time.Second, Model: "M0001", Prompt: 1, Output: 40},
			},
		},
	} {
		for _, zipped := range []bool{false, true} {
			source, err := Open(write(t, c.text, zipped), Options{Model: "m"})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for range 2 {
				if got, err := Collect(source); err != nil || !reflect.DeepEqual(got, c.want) {
					t.Errorf("%s, compressed %t: %+v, %v", name, zipped, got, err)
				}
			}
		}
	}
}

// write writes a file.
func write(t *testing.T, text string, zipped bool) string {
	t.Helper()
	var b bytes.Buffer
	w := io.WriteCloser(nopCloser{&b})
	if zipped {
		w = gzip.NewWriter(&b)
	}
	_, err := io.WriteString(w, text)
	path := filepath.Join(t.TempDir(), "trace")
	if err = errors.Join(err, w.Close(), os.WriteFile(path, b.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	return path
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// TestErrors checks that an invalid trace is refused with its line, the key, and a remedy, after the requests
// before it.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		text, want string
		before     int // requests
	}{
		{lines(mooncakeLine, `{"timestamp": 1, "input_length": 7}`), "f:2: output_length is missing", 1},
		{lines(`{"timestamp": 1, "input_length": "x", "output_length": 1}`), "f:1: input_length cannot be a string", 0},
		{lines(`{"timestamp": 1, "input_length": -1, "output_length": 1}`), "f:1: input_length is missing or not", 0},
		{lines(mooncakeLine, "hash_ids"), "f:2: not JSON", 1},
		{lines(strings.ReplaceAll(mooncakeLine, `: 0`, `: 9`), mooncakeLine),
			"f:2: timestamp is 9ms earlier than in the line above; sort", 1},
		{lines("TIMESTAMP,ContextTokens"), "f:1: column GeneratedTokens is missing", 0},
		{lines(azureHeader, "2023-11-16 18:17:03,1,2", "yesterday,1,2"), `f:3: TIMESTAMP "yesterday" is not a time`, 1},
		{lines(azureHeader, "2023-11-16 18:17:03,1,2", "2023-11-16 18:17:02,1,2"), "f:3: TIMESTAMP is 1s earlier", 1},
		{lines(azureHeader, "2023-11-16 18:17:03,1"), "f:2: wrong number of fields", 0},
		{lines(arenaHeader, "0,-1,a,1,1"), `f:2: arrival_s "-1" is not a number`, 0},
		{lines(arenaHeader, "0,NaN,a,1,1"), `f:2: arrival_s "NaN" is not a number`, 0},
		{lines(arenaHeader, "0,1,a,1,1e300"), `f:2: output_len "1e300" is not a number of tokens`, 0},
		{lines(imageHeader, "2024-11-15 16:57:50,63.0,x,30.0,M0000"), `f:2: num_images_per_prompt "x"`, 0},
		{"what is this", "f:1: is of no known format; use JSON lines", 0},
		{"", "f:1: is of no known format", 0},
	} {
		source, err := Open(write(t, c.text, false), Options{File: "f"})
		n := 0
		if err == nil {
			for _, err = range source {
				if err == nil {
					n++
				}
			}
		}
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || !strings.Contains(err.Error(), "; ") ||
			n != c.before {
			t.Errorf("%q: %v after %d requests", c.text, err, n)
		}
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none"), Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
