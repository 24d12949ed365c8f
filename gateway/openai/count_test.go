package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// allocatedBytes returns the number of bytes that f allocates.
func allocatedBytes(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// listOf returns a JSON list of n equal elements.
func listOf(element string, n int) string {
	return "[" + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + "]"
}

// TestLongListsRefusedBeforeDecoding checks that long lists of small elements are counted and
// refused. Decoded, they would use many times the memory of the request.
func TestLongListsRefusedBeforeDecoding(t *testing.T) {
	const n = 1 << 18
	var bias strings.Builder
	for i := range n {
		fmt.Fprintf(&bias, `,"%d":0`, i)
	}
	for param, body := range map[string]string{
		"messages":       `"messages":` + listOf("{}", n),
		"messages[0]":    `"messages":[{"role":"user","content":` + listOf("{}", n) + `}]`,
		"logit_bias":     `"prompt":"a","logit_bias":{` + bias.String()[1:] + `}`,
		"stop":           `"prompt":"a","stop":` + listOf(`""`, n),
		"stop_token_ids": `"prompt":"a","stop_token_ids":` + listOf("1", n),
		"prompt":         `"prompt":` + listOf(`"a"`, n),
		"tools":          `"prompt":"a","tools":` + listOf("0", n),
	} {
		data := []byte(`{"model":"m",` + body + `}`)
		var err error
		bytes := allocatedBytes(func() { _, err = Decode(data, strings.HasPrefix(param, "messages")) })
		var e *Error
		if !errors.As(err, &e) || e.Param == nil || *e.Param != param {
			t.Errorf("%s: %v", param, err)
		}
		if most := uint64(5 * len(data)); bytes > most {
			t.Errorf("%s: %d bytes allocated for a request of %d", param, bytes, len(data))
		}
	}
}

// TestPartsJoinedInLinearTime checks that the text of many parts is joined once. Joined one by one,
// 16384 parts of 64 bytes would copy 8 GiB.
func TestPartsJoinedInLinearTime(t *testing.T) {
	part := `{"type":"text","text":"` + strings.Repeat("a", 64) + `"}`
	data := []byte(`{"model":"m","messages":[{"role":"user","content":` + listOf(part, maxParts) + `}]}`)
	var r *Request
	var err error
	if bytes := allocatedBytes(func() { r, err = Decode(data, true) }); bytes > uint64(20*len(data)) {
		t.Errorf("%d bytes allocated for a request of %d", bytes, len(data))
	}
	if err != nil || len(r.Messages[0].Content) != 64*maxParts {
		t.Errorf("%v", err)
	}
}

// TestTokensCountedBeforeReading checks that Decode validates and counts token IDs without storing
// them.
func TestTokensCountedBeforeReading(t *testing.T) {
	const n = 1 << 18
	data := []byte(`{"model":"m","prompt":` + listOf("1", n) + `}`)
	var r *Request
	var err error
	if bytes := allocatedBytes(func() { r, err = Decode(data, false) }); bytes > uint64(2*len(data)) {
		t.Errorf("%d bytes allocated for a request of %d", bytes, len(data))
	}
	if err != nil || r.Prompts[0].Count() != n || r.Prompts[0].Tokens != nil {
		t.Fatalf("%v", err)
	}
	if r.Prompts[0].ReadTokens(); len(r.Prompts[0].Tokens) != n {
		t.Errorf("%d tokens", len(r.Prompts[0].Tokens))
	}
}

// TestErrorTextIsBounded checks that an error does not quote large values.
func TestErrorTextIsBounded(t *testing.T) {
	long := strings.Repeat("7", 1<<20)
	for _, body := range []string{
		`"n":` + long, `"model":"` + long + `"`, `"priority":"` + long + `"`,
		`"logit_bias":{"` + long + `x":1}`, `"response_format":{"type":"` + long + `"}`,
		`"messages":[{"role":"user","content":[{"type":"é` + strings.Repeat("é", 1<<20) + `"}]}]`,
	} {
		_, err := Decode([]byte(`{"model":"m","prompt":"a",`+body+`}`), strings.HasPrefix(body, `"messages"`))
		var e *Error
		if !errors.As(err, &e) || len(e.JSON()) > 2*maxErrorBytes || !json.Valid(e.JSON()) ||
			strings.Contains(e.Message, "\uFFFD") {
			t.Errorf("%.40s: %.80v", body, err)
		}
	}
}

// TestCountElements compares countElements with the number of generated elements.
func TestCountElements(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom([]string{
			`"a"`, `1`, `null`, `[]`, `{}`, `[1,2]`, `{"a,":"b]","c":[{}]}`, `"\""`, `"\\"`, `",[{"`, ` [ ] `, "\n0\t",
		})
		parts := rapid.SliceOfN(text, 0, 5).Draw(t, "elements")
		if got := countElements(json.RawMessage("[" + strings.Join(parts, ",") + "]")); got != len(parts) {
			t.Fatalf("list of %q: %d", parts, got)
		}
		for i := range parts {
			parts[i] = fmt.Sprintf(`"%d":%s`, i, parts[i])
		}
		if got := countElements(json.RawMessage("{" + strings.Join(parts, ",") + " }")); got != len(parts) {
			t.Fatalf("object of %q: %d", parts, got)
		}
	})
	for _, other := range []string{"", "null", "1", `"[1,2]"`, "true"} {
		if got := countElements(json.RawMessage(other)); got != 0 {
			t.Errorf("%s: %d", other, got)
		}
	}
}
