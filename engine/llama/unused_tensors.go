package llama

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"

	"troupe/modelfile"
	"troupe/modelfile/safetensors"
)

const (
	embedName = "model.embed_tokens.weight"
	headName  = "lm_head.weight"
)

// inverseFrequencies matches the names of RoPE's angles, which old versions of transformers stored.
// They follow from config.json.
var inverseFrequencies = regexp.MustCompile(`^model\.(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq$`)

// checkUnused refuses a tensor that the model does not use. Its config.json then does not describe
// the trained model.
func checkUnused(c Config, found map[string]safetensors.Tensor, used map[string]bool) error {
	var others []string
	for _, name := range slices.Sorted(maps.Keys(found)) {
		switch {
		case used[name] || inverseFrequencies.MatchString(name):
		case name == headName && tiedHead(found):
		case name == headName:
			return fmt.Errorf(
				"tensor %s differs in shape or type from %s, to which tie_word_embeddings ties it; set that to false",
				headName, embedName)
		default:
			others = append(others, name)
		}
	}
	if len(others) > 0 {
		return fmt.Errorf("%s is not part of a %s with this config.json; config.json and weights belong to different "+
			"models",
			modelfile.Named("tensor", others...), c.Architecture)
	}
	return nil
}

// tiedHead reports whether lm_head can be a copy of the embedding that it is tied to. Load compares
// their content.
func tiedHead(found map[string]safetensors.Tensor) bool {
	head, embed := found[headName], found[embedName]
	return head.DType == embed.DType && slices.Equal(head.Shape, embed.Shape)
}

// checkTiedHead refuses an lm_head whose content differs from the embedding, although config.json
// ties them.
func checkTiedHead(ctx context.Context, embed placedTensor, head *safetensors.Tensor) error {
	if head == nil {
		return nil
	}
	a, err := embed.source.Open()
	if err != nil {
		return err
	}
	defer a.Close()
	b, err := head.Open()
	if err != nil {
		return err
	}
	defer b.Close()
	left, right := make([]byte, 1<<20), make([]byte, 1<<20)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := io.ReadFull(a, left)
		m, other := io.ReadFull(b, right)
		if !bytes.Equal(left[:n], right[:m]) {
			return fmt.Errorf(
				"tensor %s differs from %s, to which tie_word_embeddings ties it; set that to false", headName,
				embedName)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil // a truncated file is detected when the tensor is loaded
		}
		if err := errors.Join(err, other); err != nil {
			return err
		}
	}
}
