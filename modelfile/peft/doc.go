// Package peft reads LoRA adapters from PEFT folders: adapter_config.json and
// adapter_model.safetensors in F32, F16 or BF16.
//
// Folders are not trusted. Open checks everything against the base model before a tensor is read.
// It rejects, by name, any setting that would change the result and is not supported: an adapter is
// applied as it was trained or not at all.
package peft
