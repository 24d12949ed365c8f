package verify

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// promptTokens and OutputTokens are the lengths of a canary. Together they fill no KV block of 16 tokens.
const (
	promptTokens = 4
	OutputTokens = 8
)

// Prefix is the prefix of the names of keys.
const Prefix = "canaries."

// NotFinite stands for a token whose logits were not finite.
const NotFinite = ^uint32(0)

// Key is what a record is for. The tokens depend on nothing else.
type Key struct {
	Revision string // digest of the files
	Layout   string // of the weights
	Device   string // kind of device, with what multiplies matrices there
	Engine   string // its version, and that of its kernels
}

// Record is the output of a canary of the base model, without an adapter, at the first load.
type Record struct {
	Key    Key
	Prompt []uint32
	Tokens []uint32 // greedy
	By     string   // where it was recorded: "node-a/gpu-0, from disk"
}

// Same reports whether two records have the same prompt and tokens.
func (r Record) Same(o Record) bool {
	return slices.Equal(r.Prompt, o.Prompt) && slices.Equal(r.Tokens, o.Tokens)
}

// Valid reports whether a record can be compared with the canary of a model.
func (r Record) Valid() bool { return len(r.Prompt) > 0 && len(r.Tokens) > 0 }

// Prompt returns the prompt of a canary: token ids of the vocabulary, far from each other, that do not
// end a sequence. The prompt leaves room for an output in the context.
func Prompt(vocab, contextTokens int, eos []uint32) (prompt []uint32) {
	n := max(1, min(promptTokens, contextTokens-1))
	for i := range n {
		id := uint32(vocab * (2*i + 1) / (2 * n))
		for tries := 0; slices.Contains(eos, id) && tries < vocab; tries++ {
			id = (id + 1) % uint32(max(1, vocab))
		}
		prompt = append(prompt, id)
	}
	return prompt
}

// Outputs returns the number of tokens that a canary generates.
func Outputs(prompt, contextTokens int) int { return max(1, min(OutputTokens, contextTokens-prompt)) }

// difference says where the tokens of a canary differ from those of a record.
func difference(got, want []uint32) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("token %d of its canary is %s, and was %s at the first load", i+1, tokenText(got[i]),
				tokenText(want[i]))
		}
	}
	return fmt.Sprintf("its canary has %d tokens, and had %d at the first load", len(got), len(want))
}

func tokenText(id uint32) string {
	if id == NotFinite {
		return "not finite"
	}
	return fmt.Sprint(id)
}

// Name returns the name of a key in a store.
func (k Key) Name() string {
	h := sha256.Sum256([]byte(strings.Join([]string{k.Layout, k.Device, k.Engine}, "\x00")))
	return Prefix + k.Revision + "." + hex.EncodeToString(h[:8])
}
