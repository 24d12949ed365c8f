// Package llama runs models of the Llama family: LlamaForCausalLM, MistralForCausalLM,
// Qwen2ForCausalLM and Qwen3ForCausalLM, from Hugging Face folders (config.json, model.safetensors
// or its shards).
//
// The forward pass is a list of kernel launches on a cuda.Stream over memory of the device: a batch is a flat list of rows,
// one per token, of many sequences, prefills and decodes alike; attention finds each row's keys and values through its
// sequence's block table. Nothing depends on which device it is.
package llama
