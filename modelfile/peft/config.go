package peft

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"troupe/core/lora"
	"troupe/modelfile"
)

// maxTargets limits the number of modules, and of layers, in a config.
const maxTargets = 4096

// MaxRank is the highest rank that the kernels support.
const MaxRank = 256

// Config is the content of adapter_config.json.
type Config struct {
	Base  string // base_model_name_or_path: a repository or a local path
	Rank  int
	Scale float32 // alpha/rank, or alpha/√rank with rslora

	names   []string       // target modules: suffixes of their paths
	pattern *regexp.Regexp // or a pattern that matches whole paths
	layers  []int          // nil means all
}

// file is the JSON form of adapter_config.json.
type file struct {
	Type           string          `json:"peft_type"`
	Base           string          `json:"base_model_name_or_path"`
	Rank           *int            `json:"r"`
	Alpha          *float64        `json:"lora_alpha"`
	RankStabilized bool            `json:"use_rslora"`
	Targets        json.RawMessage `json:"target_modules"`
	Layers         json.RawMessage `json:"layers_to_transform"`
	LayersPattern  json.RawMessage `json:"layers_pattern"`
	Bias           string          `json:"bias"`

	LoraBias     bool            `json:"lora_bias"`
	DoRA         bool            `json:"use_dora"`
	QALoRA       bool            `json:"use_qalora"`
	FanInFanOut  bool            `json:"fan_in_fan_out"`
	Init         json.RawMessage `json:"init_lora_weights"`
	Save         json.RawMessage `json:"modules_to_save"`
	Exclude      json.RawMessage `json:"exclude_modules"`
	Ranks        json.RawMessage `json:"rank_pattern"`
	Alphas       json.RawMessage `json:"alpha_pattern"`
	Replication  json.RawMessage `json:"layer_replication"`
	Tokens       json.RawMessage `json:"trainable_token_indices"`
	Parameters   json.RawMessage `json:"target_parameters"`
	Megatron     json.RawMessage `json:"megatron_config"`
	ActivatedBy  json.RawMessage `json:"alora_invocation_tokens"`
	ArrowRouting json.RawMessage `json:"arrow_config"`
}

// ReadConfig reads the adapter_config.json of a folder.
func ReadConfig(roots modelfile.Roots, dir string) (Config, error) {
	path := filepath.Join(dir, "adapter_config.json")
	b, err := roots.Read(path, modelfile.Config)
	if errors.Is(err, os.ErrNotExist) {
		return Config{}, fmt.Errorf("%s: no adapter_config.json; set the folder of a PEFT adapter: %w", dir, err)
	}
	if err != nil {
		return Config{}, err
	}
	var f file
	if err := modelfile.Unmarshal(b, &f); err != nil {
		return Config{}, fmt.Errorf("%s: %w", path, err)
	}
	c, err := f.config()
	if err == nil {
		err = unknown(b)
	}
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

func (f file) config() (Config, error) {
	c := Config{Base: f.Base, Rank: valueOr(f.Rank, defaultRank)}
	if f.Type != "LORA" {
		return c, fmt.Errorf("unsupported peft_type; supported: LORA")
	}
	if c.Rank < 1 || c.Rank > MaxRank {
		return c, fmt.Errorf("r is %d; it must be between 1 and %d", c.Rank, MaxRank)
	}
	if f.Bias != "" && f.Bias != "none" {
		return c, fmt.Errorf("unsupported bias; supported: none")
	}
	if name := f.unsupported(); name != "" {
		return c, fmt.Errorf("%s is not supported; train the adapter without it", name)
	}
	alpha := valueOr(f.Alpha, defaultAlpha)
	c.Scale = float32(alpha / float64(c.Rank))
	if f.RankStabilized { // Kalajdzievski, "A Rank Stabilization Scaling Factor for Fine-Tuning with LoRA", 2023
		c.Scale = float32(alpha / math.Sqrt(float64(c.Rank)))
	}
	if math.IsInf(float64(c.Scale), 0) {
		return c, fmt.Errorf(
			"lora_alpha is %v, which makes the adapter's scale infinite; lora_alpha is usually between 1 and 1000",
			alpha,
		)
	}
	if err := c.targets(f.Targets); err != nil {
		return c, err
	}
	if err := c.selection(f.Layers, f.LayersPattern); err != nil {
		return c, err
	}
	if len(c.names) > maxTargets || len(c.layers) > maxTargets {
		return c, fmt.Errorf("target_modules or layers_to_transform has more than %d entries", maxTargets)
	}
	return c, nil
}

// unsupported returns the first setting that would change the result and is not supported.
func (f file) unsupported() string {
	for _, s := range []struct {
		name string
		set  bool
	}{
		{"use_dora", f.DoRA}, {"use_qalora", f.QALoRA}, {"lora_bias", f.LoraBias}, {"fan_in_fan_out", f.FanInFanOut},
		{"modules_to_save", given(f.Save)}, {"exclude_modules", given(f.Exclude)}, {"rank_pattern", given(f.Ranks)},
		{"alpha_pattern", given(f.Alphas)}, {"layer_replication", given(f.Replication)},
		{"trainable_token_indices", given(f.Tokens)},
		{"target_parameters", given(f.Parameters)}, {"megatron_config", given(f.Megatron)},
		{"alora_invocation_tokens", given(f.ActivatedBy)}, {"arrow_config", given(f.ArrowRouting)},
	} {
		if s.set {
			return s.name
		}
	}
	return f.unsupportedInit()
}

// unsupportedInit returns an initialization that is not known to leave the base model's weights
// unchanged.
func (f file) unsupportedInit() string {
	var init string
	if json.Unmarshal(f.Init, &init) != nil {
		return ""
	}
	init = strings.ToLower(init)
	if slices.Contains([]string{"", "true", "false", "gaussian", "eva", "orthogonal"}, init) {
		return ""
	}
	for _, name := range []string{"pissa", "olora", "corda", "loftq", "lora_ga"} {
		if strings.HasPrefix(init, name) {
			return "this kind of init_lora_weights (" + name + ")"
		}
	}
	return "this kind of init_lora_weights"
}

// PEFT's defaults for missing fields.
const (
	defaultRank  = 8
	defaultAlpha = 8.0
)

func valueOr[T any](p *T, other T) T {
	if p == nil {
		return other
	}
	return *p
}

// given reports whether a setting is present and not empty.
func given(raw json.RawMessage) bool {
	return !slices.Contains([]string{"", "null", "false", "[]", "{}"}, string(raw))
}

// targets reads a list of names or a pattern.
func (c *Config) targets(raw json.RawMessage) error {
	var pattern string
	switch {
	case json.Unmarshal(raw, &c.names) == nil && len(c.names) > 0:
		return nil
	case json.Unmarshal(raw, &pattern) != nil || pattern == "":
		return fmt.Errorf("target_modules must be a list of names or a pattern")
	case pattern == "all-linear":
		pattern = ".*_proj"
	}
	var err error
	if c.pattern, err = regexp.Compile("^(?:" + pattern + ")$"); err != nil {
		return fmt.Errorf("the pattern of target_modules is not supported; list the modules by name")
	}
	return nil
}

// selection reads layers_to_transform, the layers that the adapter changes.
func (c *Config) selection(layers, pattern json.RawMessage) error {
	if given(pattern) && string(pattern) != `"layers"` && string(pattern) != `["layers"]` {
		return fmt.Errorf("unsupported layers_pattern; supported: layers")
	}
	var one int
	switch {
	case !given(layers):
	case json.Unmarshal(layers, &one) == nil:
		c.layers = []int{one}
	case json.Unmarshal(layers, &c.layers) != nil:
		return fmt.Errorf("layers_to_transform must be a number or a list of numbers")
	}
	return nil
}

// path returns the name of a projection in the base model.
func path(layer int, t lora.Target) string {
	block := "self_attn"
	if t >= lora.Gate {
		block = "mlp"
	}
	return fmt.Sprintf("model.layers.%d.%s.%s", layer, block, t)
}

// changes reports whether the adapter has matrices for a projection, by PEFT's rules.
func (c *Config) changes(layer int, t lora.Target) bool {
	if c.layers != nil && !slices.Contains(c.layers, layer) {
		return false
	}
	if c.pattern != nil {
		return c.pattern.MatchString(path(layer, t))
	}
	return slices.ContainsFunc(c.names, func(name string) bool { return names(name, path(layer, t)) })
}

// names reports whether a name is a path or a suffix of it.
func names(name, path string) bool { return path == name || strings.HasSuffix(path, "."+name) }

// check rejects names and layers that the base model does not have.
func (c *Config) check(layers int) error {
	for _, layer := range c.layers {
		if layer < 0 || layer >= layers {
			return fmt.Errorf("layers_to_transform names layer %d, but the base model has %d layers", layer, layers)
		}
	}
	for _, name := range c.names {
		known := false
		for layer := range layers {
			for t := range lora.Targets {
				known = known || names(name, path(layer, t))
			}
		}
		if !known {
			return fmt.Errorf(
				"unsupported module in target_modules; supported: the projections of attention and MLP (%s, …)",
				lora.Q,
			)
		}
	}
	return nil
}
