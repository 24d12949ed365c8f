package llama

import (
	"fmt"
	"time"

	"troupe/cuda"
	"troupe/engine"
	"troupe/modelfile"
	"troupe/modelfile/safetensors"
)

// Inspect implements engine.Loader.
func (f Loader) Inspect(path string, device cuda.Info) (engine.ModelInfo, error) {
	m, err := inspect(f.Roots, path, device)
	return m.info, err
}

// inspectedModel is a model's folder after its checks.
type inspectedModel struct {
	Config
	tensors  []placedTensor
	info     engine.ModelInfo
	tiedHead *safetensors.Tensor // an lm_head that is stored although it is tied to the embedding; nil: none
}

// inspections limits the number of folders inspected at once. File sizes are bounded, and no memory
// is allocated for a declared number before the tensors confirm it. Together this bounds the memory
// that hostile folders can use on a node.
var inspections = make(chan struct{}, 4)

// inspectTimeout is how long an inspection waits for a free slot.
const inspectTimeout = 10 * time.Second

// inspect reads config.json and the headers of the weights, and checks them against each other.
func inspect(roots modelfile.Roots, path string, device cuda.Info) (inspectedModel, error) {
	turn := time.NewTimer(inspectTimeout)
	defer turn.Stop()
	select {
	case inspections <- struct{}{}:
		defer func() { <-inspections }()
	case <-turn.C:
		return inspectedModel{}, fmt.Errorf(
			"%s: reading %d other model folders does not finish; check their file systems",
			path, cap(inspections))
	}
	c, err := ReadConfig(roots, path)
	if err != nil {
		return inspectedModel{}, err
	}
	found, err := readHeaders(roots, path)
	if err != nil {
		return inspectedModel{}, err
	}
	matrices := matrixType(device.Weights, found)
	tensors, size, err := placeTensors(path, c, matrices, found)
	if err != nil {
		return inspectedModel{}, err
	}
	m := inspectedModel{Config: c, tensors: tensors}
	if head, ok := found[headName]; ok && c.TiedEmbeddings {
		m.tiedHead = &head
	}
	m.info = engine.ModelInfo{
		Vocab: c.Vocab, ContextTokens: c.ContextTokens, EOS: c.EOS,
		WeightBytes: size, WeightLayout: weightLayout(matrices),
		KVTokenBytes: c.KVTokenBytes(), KVLayout: c.kvLayout(matrices), KVLayers: c.Layers,
		RowBytes: c.rowBytes(), LogitsBytes: c.logitsBytes(), AdapterBytes: c.adapterBytes(),
		RankBytes:   c.rankBytes(matrices),
		StreamBytes: device.StreamBytes, GraphOpBytes: device.GraphOpBytes,
	}
	m.info.GraphOps, m.info.LoRAGraphOps = c.graphOps()
	return m, nil
}

// weightLayout returns the layout of weights whose matrices have a type.
func weightLayout(matrices cuda.DType) string { return "llama " + matrices.String() }

// matrixType returns the type of a model's matrices on a device. If the device prefers 16 bits, it
// is the stored type: neither 16-bit type can represent all numbers of the other, or of F32.
func matrixType(best cuda.DType, found map[string]safetensors.Tensor) cuda.DType {
	if t, ok := found["model.embed_tokens.weight"]; ok && best != cuda.F32 {
		return t.DType
	}
	return best
}
