package peft

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"troupe/modelfile"
)

// read lists the keys of adapter_config.json that ReadConfig checks.
var read = []string{
	"peft_type", "base_model_name_or_path", "r", "lora_alpha", "use_rslora", "target_modules",
	"layers_to_transform", "layers_pattern", "bias",
	"lora_bias", "use_dora", "use_qalora", "fan_in_fan_out", "init_lora_weights", "modules_to_save",
	"exclude_modules", "rank_pattern",
	"alpha_pattern", "layer_replication", "trainable_token_indices", "target_parameters", "megatron_config",
	"alora_invocation_tokens",
	"arrow_config",
}

// inert lists the keys that do not change what a trained adapter computes, at least not without
// another key that is rejected.
var inert = []string{
	"task_type", "auto_mapping", "peft_version", "revision", "inference_mode", "lora_dropout", "megatron_core",
	"loftq_config", "eva_config",
	"corda_config", "lora_ga_config", "qalora_group_size", "runtime_config", "ensure_weight_tying",
}

// unknown rejects a key that is in neither list and has a value, since it may change the result.
func unknown(config []byte) error {
	var keys map[string]json.RawMessage
	if err := modelfile.Unmarshal(config, &keys); err != nil {
		return err
	}
	var found []string
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if given(keys[key]) && !slices.Contains(read, key) && !slices.Contains(inert, key) {
			found = append(found, key)
		}
	}
	if len(found) > 0 {
		return fmt.Errorf("%s is unknown and may change what the adapter computes; remove it if it does not",
			modelfile.Named("key", found...))
	}
	return nil
}
