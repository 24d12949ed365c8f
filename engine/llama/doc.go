// Package llama runs models of the Llama family: LlamaForCausalLM, MistralForCausalLM,
// Qwen2ForCausalLM and Qwen3ForCausalLM. It reads Hugging Face folders (config.json,
// model.safetensors or its shards).
//
// The forward pass is a list of kernel launches on a cuda.Stream. A batch is a flat list of rows,
// one per token, from many sequences, with prefills and decodes mixed. Attention finds the keys and
// values of a row through the block table of its sequence. The package does not depend on the kind
// of device.
//
// # Graphs
//
// CaptureGraphs captures the steps that only decode: one token of each sequence, with no gate. There is
// a graph for 1, 2, 4, 8, … sequences up to the maximum, and one more for each if the engine can have
// adapters. A batch runs with the next larger graph; all other steps run kernel by kernel.
//
// What changes from step to step is not in a graph but in device memory at fixed addresses, which is
// written before the launch: tokens, positions, slots, block tables, the adapter of each row, and the
// tables of adapters, whose sizes are those for the maximum. A token is sampled on the CPU, after the
// launch. The rows that a batch lacks are padding (sequence and slot -1), which reads and writes no
// block. A row's result does not depend on the other rows, so the results are the same bits.
//
// Graphs stay valid when the KV memory grows or shrinks: its addresses are reserved once, and a graph
// is captured for all blocks that there may ever be at them. Step refuses a block that is not there, as
// without graphs.
//
// Each step runs once before its capture, with nothing but padding. Everything that is allocated or
// loaded at first use is there then: the driver's kernels, and the memory and the handle of cuBLAS,
// which belong to the stream. If a capture fails, the stream is replaced, since it may have a fault.
//
// Device memory that a driver takes for graphs is not part of engine.ModelInfo.WorkspaceBytes, but of
// GraphMemory: an upper bound, by the number of operations. `make gpu-check` compares it with a measurement.
package llama
