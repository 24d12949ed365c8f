package adapters

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"troupe/core/lora"
)

// Write writes an adapter that Random generates to a PEFT folder.
func Write(dir string, s Shape, rank int, seed uint64) error {
	file := Random(s, rank, seed, Everywhere)
	content := make([]byte, file.Layout.Bytes())
	if err := file.Read(context.Background(), content); err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"peft_type": "LORA", "r": rank, "lora_alpha": rank, "target_modules": targetNames(),
	})
	if err != nil {
		return err
	}
	type entry struct {
		DType   string   `json:"dtype"`
		Shape   []int    `json:"shape"`
		Offsets [2]int64 `json:"data_offsets"`
	}
	header, data := make(map[string]entry), []byte(nil)
	for layer := range s.Layers {
		for target, projection := range s.Projections {
			for part, shape := range [][]int{lora.A: {rank, projection[1]}, lora.B: {projection[0], rank}} {
				m := lora.Matrix{Layer: layer, Target: lora.Target(target), Part: lora.Part(part)}
				e, _ := file.Layout.Find(m)
				at := int64(len(data))
				data = append(data, content[e.Offset:][:e.Bytes]...)
				header[tensorName(m)] = entry{"F32", shape, [2]int64{at, at + e.Bytes}}
			}
		}
	}
	text, err := json.Marshal(header)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "adapter_config.json"), config, 0o644); err != nil {
		return err
	}
	tensors := append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)
	return os.WriteFile(filepath.Join(dir, "adapter_model.safetensors"), append(tensors, data...), 0o644)
}

func targetNames() (all []string) {
	for t := range lora.Targets {
		all = append(all, t.String())
	}
	return all
}

func tensorName(m lora.Matrix) string {
	block := "self_attn"
	if m.Target >= lora.Gate {
		block = "mlp"
	}
	return fmt.Sprintf("base_model.model.model.layers.%d.%s.%s.lora_%s.weight", m.Layer, block, m.Target, m.Part)
}
