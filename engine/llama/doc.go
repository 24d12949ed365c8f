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
// block. A row's result does not depend on the other rows, so the results are bit-identical with and
// without graphs.
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
//
// # Work
//
// Work counts what the model asks of the device in a step, for core/utilization:
//
//	FLOPs = 2 · rows · P + 2 · samples · vocab · hidden
//	      + 4 · heads · head dim · layers · pairs
//	      + 2 · rows with adapters · elements of their adapter
//	bytes = element size · (P + rows · hidden + vocab · hidden, if a row is sampled)
//	      + KV bytes per token · (tokens read + tokens written)
//	      + bytes of each adapter
//
// P is the number of elements of the projections of all layers. Pairs are those of a query and a key that it attends
// to: a token at position p has p + 1, or as many as the window. A step reads the weights once, and the keys and values
// of a sequence once, however many of its tokens are computed.
//
// The terms are those of Kaplan et al., "Scaling Laws for Neural Language Models" (2020), section 2.1, for the forward
// pass, and the traffic is that of Pope et al., "Efficiently Scaling Transformer Inference" (2022), section 2: weights
// and KV. Norms, rotary embeddings, activations and sampling are left out, and so is the padding of graphs, which no
// model asks for. Kernels may move more bytes and multiply more often than that; the roofline share is lower then.
package llama
