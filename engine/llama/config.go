package llama

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"troupe/core/units"
	"troupe/cuda"
	"troupe/modelfile"
)

// Config is the shape of a model, read from config.json.
type Config struct {
	Architecture     string
	Vocab            int
	Hidden           int
	Intermediate     int
	Layers           int
	Heads            int
	KVHeads          int
	HeadDim          int
	ContextTokens    int
	Window           int // sliding window of attention; 0: none
	Eps              float64
	TiedEmbeddings   bool
	QKVBias, OutBias bool
	MLPBias          bool
	QKNorm           bool // q and k are normalized per head before RoPE
	EOS              []uint32
	Rope             Rope
}

// Rope maps positions to angles (rotary position embedding).
type Rope struct {
	Theta   float64
	Scaling string // "", "linear" or "llama3"
	Factor  float64
	// For llama3, wavelengths between OriginalContext/High and OriginalContext/Low are scaled in
	// part.
	Low, High       float64
	OriginalContext int
}

// configFile is the content of config.json.
type configFile struct {
	Architectures    []string        `json:"architectures"`
	Vocab            int             `json:"vocab_size"`
	Hidden           int             `json:"hidden_size"`
	Intermediate     int             `json:"intermediate_size"`
	Layers           int             `json:"num_hidden_layers"`
	Heads            int             `json:"num_attention_heads"`
	KVHeads          *int            `json:"num_key_value_heads"`
	HeadDim          *int            `json:"head_dim"`
	Context          int             `json:"max_position_embeddings"`
	Window           *int            `json:"sliding_window"`
	UseWindow        *bool           `json:"use_sliding_window"`
	Eps              float64         `json:"rms_norm_eps"`
	Tied             bool            `json:"tie_word_embeddings"`
	AttentionBias    bool            `json:"attention_bias"`
	MLPBias          bool            `json:"mlp_bias"`
	Activation       string          `json:"hidden_act"`
	EOS              json.RawMessage `json:"eos_token_id"`
	Theta            float64         `json:"rope_theta"`
	Scaling          *ropeFile       `json:"rope_scaling"`
	Parameters       *ropeFile       `json:"rope_parameters"`
	QuantizationConf json.RawMessage `json:"quantization_config"`
}

type ropeFile struct {
	Type     string  `json:"rope_type"`
	TypeOld  string  `json:"type"`
	Theta    float64 `json:"rope_theta"`
	Factor   float64 `json:"factor"`
	Low      float64 `json:"low_freq_factor"`
	High     float64 `json:"high_freq_factor"`
	Original int     `json:"original_max_position_embeddings"`
}

// ReadConfig reads the config.json of a model folder, and the end-of-sequence IDs of its
// generation_config.json.
func ReadConfig(roots modelfile.Roots, dir string) (Config, error) {
	path := filepath.Join(dir, "config.json")
	b, err := roots.Read(path, modelfile.Config)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return Config{}, explainNoConfig(roots, dir)
	}
	if err != nil {
		return Config{}, err
	}
	var f configFile
	if err := modelfile.Unmarshal(b, &f); err != nil {
		return Config{}, fmt.Errorf("%s: %w", path, err)
	}
	c, err := f.config()
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", path, err)
	}
	generation := filepath.Join(dir, "generation_config.json")
	b, err = roots.Read(generation, modelfile.Config)
	if errors.Is(err, os.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return Config{}, err
	}
	var g struct {
		EOS json.RawMessage `json:"eos_token_id"`
	}
	if json.Unmarshal(b, &g) == nil {
		if ids, err := tokenIDs(g.EOS); err == nil && len(ids) > 0 {
			c.EOS = ids
			if err := c.check(); err != nil {
				return c, fmt.Errorf("%s: %w", generation, err)
			}
		}
	}
	return c, nil
}

func (f configFile) config() (Config, error) {
	c := Config{
		Vocab: f.Vocab, Hidden: f.Hidden, Intermediate: f.Intermediate, Layers: f.Layers, Heads: f.Heads,
		KVHeads:       f.Heads,
		ContextTokens: f.Context, Eps: f.Eps, TiedEmbeddings: f.Tied,
	}
	if len(f.Architectures) > 0 {
		c.Architecture = f.Architectures[0]
	}
	switch c.Architecture {
	case "LlamaForCausalLM":
		c.QKVBias, c.OutBias, c.MLPBias = f.AttentionBias, f.AttentionBias, f.MLPBias
	case "MistralForCausalLM":
		if f.Window != nil {
			c.Window = *f.Window
		}
	case "Qwen2ForCausalLM":
		c.QKVBias = true
	case "Qwen3ForCausalLM":
		c.QKVBias, c.OutBias, c.QKNorm = f.AttentionBias, f.AttentionBias, true
	default:
		return c, fmt.Errorf("architecture is not supported; use one of %s", strings.Join(architectures, ", "))
	}
	if f.UseWindow != nil && *f.UseWindow && strings.HasPrefix(c.Architecture, "Qwen") {
		return c, fmt.Errorf("use_sliding_window is not supported for %s; set it to false", c.Architecture)
	}
	if len(f.QuantizationConf) > 0 && string(f.QuantizationConf) != "null" {
		return c, errors.New("quantized weights are not supported; use the F32, F16 or BF16 model")
	}
	if f.Activation != "" && f.Activation != "silu" {
		return c, fmt.Errorf("hidden_act is not supported; use silu")
	}
	if f.KVHeads != nil {
		c.KVHeads = *f.KVHeads
	}
	switch {
	case f.HeadDim != nil:
		c.HeadDim = *f.HeadDim
	case c.QKNorm:
		c.HeadDim = 128 // as in transformers, for any hidden size
	case c.Heads > 0:
		c.HeadDim = c.Hidden / c.Heads
	}
	var err error
	if c.EOS, err = tokenIDs(f.EOS); err != nil {
		return c, err
	}
	if c.Rope, err = f.rope(); err != nil {
		return c, err
	}
	return c, c.check()
}

func (f configFile) rope() (Rope, error) {
	r := Rope{Theta: f.Theta}
	s := f.Scaling
	if f.Parameters != nil {
		s = f.Parameters
	}
	if s != nil {
		if s.Theta != 0 {
			r.Theta = s.Theta
		}
		r.Scaling, r.Factor, r.Low, r.High, r.OriginalContext = s.Type, s.Factor, s.Low, s.High, s.Original
		if r.Scaling == "" {
			r.Scaling = s.TypeOld
		}
	}
	if r.Theta == 0 {
		r.Theta = 10000
	}
	if r.Theta < 0 {
		return r, fmt.Errorf("rope_theta is %v; it must be more than 0", r.Theta)
	}
	switch r.Scaling {
	case "", "default":
		r.Scaling = ""
	case "linear":
		if r.Factor <= 0 {
			return r, fmt.Errorf("rope_scaling: factor %v must be more than 0", r.Factor)
		}
	case "llama3":
		if r.Factor <= 0 || r.Low <= 0 || r.High <= r.Low || r.OriginalContext <= 0 {
			return r, fmt.Errorf(
				"rope_scaling: llama3 needs factor, low_freq_factor < high_freq_factor and " +
					"original_max_position_embeddings",
			)
		}
	default:
		return r, fmt.Errorf("the type of rope_scaling is not supported; use linear or llama3")
	}
	return r, nil
}

// Bounds on config.json. Within them no product of sizes overflows.
const (
	maxSize    = 1 << 24 // for each size
	maxLayers  = 1 << 12
	maxHeads   = 1 << 12
	maxHeadDim = 1 << 12 // head_dim
	maxEOS     = 256
)

func (c Config) check() error {
	for _, s := range []struct {
		name string
		n    int
		most int
	}{
		{"vocab_size", c.Vocab, maxSize}, {"hidden_size", c.Hidden, maxSize}, {"intermediate_size",
			c.Intermediate, maxSize},
		{"num_hidden_layers", c.Layers, maxLayers}, {"num_attention_heads", c.Heads, maxHeads},
		{"num_key_value_heads", c.KVHeads, maxHeads},
		{"head_dim", c.HeadDim, maxHeadDim}, {"max_position_embeddings", c.ContextTokens, maxSize},
	} {
		if s.n < 1 || s.n > s.most {
			return fmt.Errorf("%s is %d; it must be between 1 and %d", s.name, s.n, s.most)
		}
	}
	switch {
	case c.Heads%c.KVHeads != 0:
		return fmt.Errorf("num_attention_heads %d is not a multiple of num_key_value_heads %d", c.Heads, c.KVHeads)
	case c.HeadDim%2 != 0:
		return fmt.Errorf("head_dim %d is odd; rotary embeddings need pairs", c.HeadDim)
	case c.Window < 0:
		return fmt.Errorf("sliding_window is %d; it must be positive, or null", c.Window)
	case !(c.Eps > 0 && c.Eps < 1):
		return fmt.Errorf("rms_norm_eps is %v; it must be between 0 and 1", c.Eps)
	case len(c.EOS) > maxEOS:
		return fmt.Errorf("eos_token_id lists %d ids; at most %d are allowed", len(c.EOS), maxEOS)
	}
	for _, f := range c.Rope.InvFreq(c.HeadDim) {
		if f := float64(f); math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Errorf(
				"rope_theta %v and rope_scaling give angles that are not numbers; download config.json again",
				c.Rope.Theta)
		}
	}
	for _, id := range c.EOS {
		if int(id) >= c.Vocab {
			return fmt.Errorf("eos_token_id %d is outside the vocabulary of %d", id, c.Vocab)
		}
	}
	return nil
}

// tokenIDs parses null, a number or a list of numbers.
func tokenIDs(raw json.RawMessage) ([]uint32, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var one uint32
	if json.Unmarshal(raw, &one) == nil {
		return []uint32{one}, nil
	}
	var many []uint32
	if err := json.Unmarshal(raw, &many); err != nil {
		return nil, fmt.Errorf("eos_token_id is neither a token id nor a list of them")
	}
	return many, nil
}

// KVTokenBytes returns the size of the keys and values of one token, stored as F32.
func (c Config) KVTokenBytes() int64 { return units.KVTokenBytes(c.Layers, c.KVHeads, c.HeadDim, 4) }

// kvLayout describes a block's content. It includes the weights' type, which determines the last
// bits of the keys and values.
func (c Config) kvLayout(matrices cuda.DType) string {
	return fmt.Sprintf(
		"F32 keys and values of %s, %d layers with %d heads of %d, from %s weights", c.Architecture, c.Layers,
		c.KVHeads, c.HeadDim, matrices,
	)
}

// InvFreq returns the angle per position of each pair of a head. The llama3 scaling is that of the
// Llama 3.1 release: it divides long wavelengths by the factor, keeps short ones and interpolates
// between them.
func (r Rope) InvFreq(headDim int) []float32 {
	freq := make([]float32, headDim/2)
	for j := range freq {
		f := math.Pow(r.Theta, -2*float64(j)/float64(headDim))
		switch r.Scaling {
		case "linear":
			f /= r.Factor
		case "llama3":
			f = r.llama3(f)
		}
		freq[j] = float32(f)
	}
	return freq
}

func (r Rope) llama3(f float64) float64 {
	wavelength := 2 * math.Pi / f
	original := float64(r.OriginalContext)
	switch {
	case wavelength < original/r.High:
		return f
	case wavelength > original/r.Low:
		return f / r.Factor
	}
	smooth := (original/wavelength - r.Low) / (r.High - r.Low)
	return (1-smooth)*f/r.Factor + smooth*f
}
