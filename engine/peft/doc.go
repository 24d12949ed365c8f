// Package peft reads LoRA adapters from PEFT folders: adapter_config.json and adapter_model.safetensors in F32, F16 or BF16.
//
// Folders are not trusted. Open checks everything against the base model before a tensor is read, and refuses, by name, what would
// change the outcome and is not supported: an adapter is applied as it was trained, or not at all.
package peft
