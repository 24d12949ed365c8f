package models

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"

	"troupe/cuda"
	"troupe/engine/llama"
)

// Random writes to dir a Llama model with random weights of nearly the given number of bytes, at
// least MinBytes and never more than bytes. It takes the tokenizer from the folder base, which must
// be that of the shipped model. It creates dir.
func Random(base, dir string, bytes int64, dtype cuda.DType, seed uint64) error {
	if _, ok := ranges[dtype]; !ok {
		return fmt.Errorf("weights of type %s are not supported", dtype)
	}
	c, err := shapeOf(bytes, dtype)
	if err != nil {
		return err
	}
	if err := copySettings(base, dir, "tokenizer.json", "tokenizer_config.json"); err != nil {
		return err
	}
	if err := writeConfig(filepath.Join(dir, "config.json"), c); err != nil {
		return err
	}
	return writeWeights(filepath.Join(dir, "model.safetensors"), tensorsOf(c), dtype, seed)
}

func writeConfig(path string, c llama.Config) error {
	b, err := json.MarshalIndent(map[string]any{
		"architectures": []string{"LlamaForCausalLM"}, "model_type": "llama", "hidden_act": "silu",
		"vocab_size": c.Vocab, "hidden_size": c.Hidden, "intermediate_size": c.Intermediate,
		"num_hidden_layers": c.Layers, "num_attention_heads": c.Heads, "num_key_value_heads": c.KVHeads,
		"head_dim": c.HeadDim, "max_position_embeddings": c.ContextTokens, "rms_norm_eps": 1e-5,
		"rope_theta": 10000.0, "tie_word_embeddings": c.TiedEmbeddings,
		"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2,
	}, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o644)
}

func writeWeights(path string, tensors []tensor, dtype cuda.DType, seed uint64) error {
	type entry struct {
		DType   string   `json:"dtype"`
		Shape   []int    `json:"shape"`
		Offsets [2]int64 `json:"data_offsets"`
	}
	header, at := make(map[string]entry, len(tensors)), int64(0)
	for _, t := range tensors {
		shape := []int{t.rows}
		if t.columns > 0 {
			shape = append(shape, t.columns)
		}
		end := at + t.elements()*dtype.Bytes()
		header[t.name], at = entry{dtype.String(), shape, [2]int64{at, end}}, end
	}
	text, err := json.Marshal(header)
	if err != nil {
		return err
	}
	random := rand.NewPCG(seed, 2)
	return create(path, func(out io.Writer) error {
		prefix := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
		if _, err := out.Write(append(prefix, text...)); err != nil {
			return err
		}
		chunk := make([]byte, chunkBytes)
		for _, t := range tensors {
			keep, base := ranges[dtype].words(dtype, t)
			for left := t.elements() * dtype.Bytes(); left > 0; {
				part := chunk[:min(left, chunkBytes)]
				eachWord(part, func(uint64) uint64 { return random.Uint64()&keep | base })
				if _, err := out.Write(part); err != nil {
					return err
				}
				left -= int64(len(part))
			}
		}
		return nil
	})
}

// float describes the bits of a type of floating-point numbers.
type float struct{ fraction, bias, sign uint32 }

var ranges = map[cuda.DType]float{
	cuda.F32: {23, 127, 31}, cuda.F16: {10, 15, 15}, cuda.BF16: {7, 127, 15},
}

// words returns the bits of an element that are random, and those that are set, repeated in a word.
// An element of a vector, which scales a norm, is between 1 and 2. The size of an element of a
// matrix is between s and 4s, where s is a power of 2 such that the matrix about preserves the size
// of its input.
func (f float) words(dtype cuda.DType, t tensor) (keep, base uint64) {
	fraction := uint32(1)<<f.fraction - 1
	if t.columns == 0 {
		return laneMask(dtype, fraction), laneMask(dtype, f.bias<<f.fraction)
	}
	rms := 1 / math.Sqrt(float64(t.columns))
	exponent := f.bias + uint32(int32(math.Floor(math.Log2(rms/2.4)+0.5)))
	exponent &^= 1 // its lowest bit is random
	return laneMask(dtype, 1<<f.sign|1<<f.fraction|fraction), laneMask(dtype, exponent<<f.fraction)
}
