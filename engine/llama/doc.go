// Package llama runs models of the Llama family: LlamaForCausalLM, MistralForCausalLM,
// Qwen2ForCausalLM and Qwen3ForCausalLM. It reads Hugging Face folders (config.json,
// model.safetensors or its shards).
//
// The forward pass is a list of kernel launches on a cuda.Stream. A batch is a flat list of rows,
// one per token, from many sequences, with prefills and decodes mixed. Attention finds the keys and
// values of a row through the block table of its sequence. The package does not depend on the kind
// of device.
package llama
