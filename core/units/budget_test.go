package units

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the tables of docs/memory-budget.md")

// The shapes are from the config.json of the published models.
var (
	llama70B = ModelShape{
		Layers: 80, Hidden: 8192, Intermediate: 28672, Vocab: 32000, Heads: 64, KVHeads: 8, HeadDim: 128,
	}
	llama13B = ModelShape{
		Layers: 40, Hidden: 5120, Intermediate: 13824, Vocab: 32000, Heads: 40, KVHeads: 40, HeadDim: 128,
	}
	llama7B = ModelShape{
		Layers: 32, Hidden: 4096, Intermediate: 11008, Vocab: 32000, Heads: 32, KVHeads: 32, HeadDim: 128,
	}
	mistral7B = ModelShape{
		Layers: 32, Hidden: 4096, Intermediate: 14336, Vocab: 32000, Heads: 32, KVHeads: 8, HeadDim: 128,
	}
)

// The device and the load of the tables.
const (
	h100        = 80_000_000_000
	runtime     = 2_000_000_000 // the driver's context
	reserve     = h100 * 3 / 10 // kv_reserve
	context     = 4096
	blockTokens = 16
	kvElement   = 2 // F16
)

// configurations are the rows of the tables: models that share the device.
var configurations = []struct {
	name   string
	models []namedShape
}{
	{"Llama 2 70B", []namedShape{{"70B", llama70B}}},
	{"Llama 2 70B, Mistral 7B", []namedShape{{"70B", llama70B}, {"7B", mistral7B}}},
	{"two Llama 2 7B", []namedShape{{"7B", llama7B}, {"7B", llama7B}}},
	{"two Llama 2 13B", []namedShape{{"13B", llama13B}, {"13B", llama13B}}},
	{"Llama 2 70B, 13B, 7B", []namedShape{{"70B", llama70B}, {"13B", llama13B}, {"7B", llama7B}}},
}

type namedShape struct {
	name string
	ModelShape
}

// TestParameters compares with the published numbers of parameters.
func TestParameters(t *testing.T) {
	for want, s := range map[int64]ModelShape{
		68_976_648_192: llama70B, 13_015_864_320: llama13B, 6_738_415_616: llama7B, 7_241_732_096: mistral7B,
	} {
		if got := s.Parameters(); got != want {
			t.Errorf("got %d, want %d", got, want)
		}
	}
	tied := llama7B
	if tied.Tied = true; tied.Parameters() != llama7B.Parameters()-32000*4096 {
		t.Error("a tied embedding is counted twice")
	}
}

// TestSequences computes the sequences of 4096 tokens by hand: a token of Llama 2 70B takes 2 · 80
// · 8 · 128 · 2 = 327,680 bytes, a sequence 1,342,177,280, and 43 GB hold 32 of them.
func TestSequences(t *testing.T) {
	token := llama70B.KVTokenBytes(kvElement)
	for kv, want := range map[int64]int{43_000_000_000: 32, 1_342_177_280: 1, 1_342_177_279: 0, -1: 0} {
		if got := Sequences(kv, token, context, blockTokens); got != want {
			t.Errorf("%d bytes: %d sequences, want %d", kv, got, want)
		}
	}
	if got := Sequences(33*token, token, 17, 16); got != 1 {
		t.Errorf("17 tokens take two blocks, but 33 tokens' bytes hold %d sequences", got)
	}
}

// TestMemoryBudgetTables checks that docs/memory-budget.md has the tables as computed here.
func TestMemoryBudgetTables(t *testing.T) {
	const page = "../../docs/memory-budget.md"
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for _, bits := range []int64{4, 16} {
		begin := fmt.Sprintf("<!-- table: %d-bit weights -->\n", bits)
		head, rest, ok := strings.Cut(text, begin)
		is, tail, end := strings.Cut(rest, "<!-- end -->")
		if !ok || !end {
			t.Fatalf("%s has no table of %d-bit weights", page, bits)
		}
		if want := table(bits); is != want && !*update {
			t.Errorf("%d bits: got\n%s\nwant (go test -update)\n%s", bits, is, want)
		}
		text = head + begin + table(bits) + "<!-- end -->" + tail
	}
	if *update {
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// table computes the table of docs/memory-budget.md for a number of bits per weight.
func table(bits int64) string {
	var b strings.Builder
	b.WriteString("| models | weights | KV memory | sequences: all KV memory | sequences: equal parts | KV reserve |\n")
	b.WriteString("| --- | --- | --- | --- | --- | --- |\n")
	for _, c := range configurations {
		var weights []int64
		for _, m := range c.models {
			weights = append(weights, m.WeightBytes(bits))
		}
		kv := KVBytes(h100, runtime, weights...)
		row := []string{c.name, gigabytes(h100 - runtime - kv), "", "none", "none", ""}
		switch {
		case kv < 0:
			row[2], row[5] = "none", gigabytes(-kv)+" too much"
		case kv < reserve:
			row[5] = "short by " + gigabytes(reserve-kv)
		default:
			row[5] = "met"
		}
		if kv >= 0 {
			row[2] = gigabytes(kv)
			row[3], row[4] = sequences(c.models, kv), sequences(c.models, kv/int64(len(c.models)))
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
	}
	return b.String()
}

func gigabytes(n int64) string { return fmt.Sprintf("%.1f GB", float64(n)/1e9) }

// sequences lists the models, each once, with the number of sequences that KV memory holds of it.
func sequences(models []namedShape, kv int64) string {
	var all []string
	for i, m := range models {
		if i > 0 && m == models[i-1] {
			continue
		}
		all = append(all, fmt.Sprintf("%s: %d", m.name, Sequences(kv, m.KVTokenBytes(kvElement), context, blockTokens)))
	}
	return strings.Join(all, ", ")
}
