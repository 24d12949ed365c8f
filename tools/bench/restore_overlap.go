package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"troupe/core/kv"
	"troupe/cuda/host"
	"troupe/engine"
	"troupe/engine/kvstore"
	"troupe/engine/llama"
	"troupe/engine/residency"
)

// The model is nearly all KV, so that the ratio of restoring a token to computing it is about that
// of a GPU: 64 KiB per token, 1 MiB per block. A part is two layers.
const (
	restoreLayers = 8
	restoreHeads  = 16
	restoreDim    = 64 // size of a head
	restoreHidden = 64
	restoreBlocks = 128
	restoreRounds = 11
	restoreNew    = 1 // new tokens after the prefix
)

// restoreModel writes the model into a folder.
func restoreModel(dir string) error {
	config := map[string]any{
		"architectures": []string{"LlamaForCausalLM"}, "vocab_size": 64, "hidden_size": restoreHidden,
		"intermediate_size": restoreHidden, "num_hidden_layers": restoreLayers,
		"num_attention_heads": restoreHeads, "num_key_value_heads": restoreHeads, "head_dim": restoreDim,
		"max_position_embeddings": 16 * (restoreBlocks + 1), "rms_norm_eps": 1e-6,
		"tie_word_embeddings": true, "eos_token_id": 1,
	}
	header, random := map[string]any{}, rand.New(rand.NewPCG(1, 2))
	var data bytes.Buffer
	add := func(name string, shape ...int) {
		from, n := data.Len(), 1
		for _, d := range shape {
			n *= d
		}
		for range n {
			_ = binary.Write(&data, binary.LittleEndian, float32(random.NormFloat64())/8)
		}
		header[name] = map[string]any{"dtype": "F32", "shape": shape, "data_offsets": []int{from, data.Len()}}
	}
	add("model.embed_tokens.weight", 64, restoreHidden)
	add("model.norm.weight", restoreHidden)
	for i := range restoreLayers {
		in := fmt.Sprintf("model.layers.%d.", i)
		add(in+"input_layernorm.weight", restoreHidden)
		add(in+"post_attention_layernorm.weight", restoreHidden)
		for _, p := range []string{"q", "k", "v"} {
			add(in+"self_attn."+p+"_proj.weight", restoreHeads*restoreDim, restoreHidden)
		}
		add(in+"self_attn.o_proj.weight", restoreHidden, restoreHeads*restoreDim)
		for _, p := range []string{"gate", "up", "down"} {
			add(in+"mlp."+p+"_proj.weight", restoreHidden, restoreHidden)
		}
	}
	head, err := json.Marshal(header)
	if err != nil {
		return err
	}
	described, err := json.Marshal(config)
	if err != nil {
		return err
	}
	file := append(binary.LittleEndian.AppendUint64(nil, uint64(len(head))), head...)
	return errors.Join(os.WriteFile(filepath.Join(dir, "config.json"), described, 0o600),
		os.WriteFile(filepath.Join(dir, "model.safetensors"), append(file, data.Bytes()...), 0o600))
}

// overlapped compares first tokens whose step overlaps with the restore of its prefix with those
// whose step waits for it.
func overlapped(dir string) (rows []row, err error) {
	path := filepath.Join(dir, "overlap")
	if err := errors.Join(os.Mkdir(path, 0o700), restoreModel(path)); err != nil {
		return nil, err
	}
	device, err := host.Open(host.Config{MemoryBytes: 1 << 30})
	if err != nil {
		return nil, err
	}
	defer device.Close()
	holder := residency.NewStore(device, llama.Loader{})
	spec := engine.LoadSpec{
		Lease: "overlap", Path: path, BlockTokens: 16, KVBlocks: restoreBlocks + 1,
		Limits: engine.Limits{StepTokens: 512, MaxSequences: 1},
	}
	if _, err := holder.Load(context.Background(), spec); err != nil {
		return nil, err
	}
	blocks, err := holder.OpenBlocks("overlap")
	if err != nil {
		return nil, err
	}
	defer blocks.Close()
	e, err := holder.Open("overlap")
	if err != nil {
		return nil, err
	}
	defer e.Close()
	slab := 8 * (blocks.BlockBytes() + 8192)
	memory, err := device.AllocHost(int64(restoreBlocks/8+1) * int64(slab))
	if err != nil {
		return nil, err
	}
	file, err := kvstore.OpenFile(
		kvstore.FileConfig{
			Path: filepath.Join(dir, "overlap.kv"), Slabs: kv.Slabs{Count: restoreBlocks/8 + 1, Bytes: slab},
			Depth: tierDepth, AllocHost: device.AllocHost,
		},
	)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	arena := kvstore.NewArena(memory, slab)
	for _, t := range []struct {
		name  string
		store kvstore.Store
		lent  bool
	}{{"DRAM", arena, false}, {"NVMe", file, false}, {"another node's DRAM", arena, true}} {
		for _, many := range []int{16, 64, restoreBlocks} {
			r, err := overlap(t.name, t.store, t.lent, blocks, e, many)
			if err != nil {
				return nil, err
			}
			rows = append(rows, r)
		}
	}
	return rows, nil
}

// overlap makes this comparison for a prefix of the given number of blocks, from a store of this
// node or exported by another node.
func overlap(
	name string,
	store kvstore.Store,
	lent bool,
	blocks *residency.BlockCopier,
	e engine.Engine,
	many int,
) (row, error) {
	ways, hashes := moves(0, many), make([]kv.Hash, many)
	cut := store.Slabs()
	for i := range ways {
		hashes[i] = kv.Root(name, fmt.Sprint(i), nil)
		ways[i].Hash = hashes[i].Namespaced(exporterSpace)
		ways[i].Slot = cut.Slot(i/cut.Fit(blocks.BlockBytes()), i%cut.Fit(blocks.BlockBytes()))
	}
	if err := kvstore.Offload(context.Background(), blocks, store, ways); err != nil {
		return row{}, err
	}
	s := engine.Sequence{Position: 16 * many, Sample: true}
	for i := range many + 1 {
		s.Blocks = append(s.Blocks, int32(i))
	}
	for i := range restoreNew {
		s.Tokens = append(s.Tokens, uint32(3+i))
	}
	step := func(gate engine.Gate) error {
		s.Gate = gate
		_, err := e.Step(context.Background(), []engine.Sequence{s})
		return err
	}
	parts := kv.Parts(blocks.BlockBytes(), blocks.Layers(), kv.DefaultPartBytes)
	newRestore := func(parts int) *kvstore.LayerRestore {
		all := make([]kvstore.BlockRestore, many)
		for i, w := range ways {
			all[i] = kvstore.BlockRestore{Move: kvstore.Move{Block: w.Block, Slot: w.Slot, Hash: w.Hash}}
			if lent {
				all[i].From = kvstore.RemoteSource
			}
		}
		return kvstore.NewLayerRestore(blocks, []kvstore.Store{store}, all, parts, func(int) {})
	}
	var other *exporter
	if lent {
		var err error
		if other, err = newExporter(store); err != nil {
			return row{}, err
		}
		defer other.close()
	}
	run := func(up *kvstore.LayerRestore) error {
		if !lent {
			up.Run(context.Background())
			return up.Err()
		}
		chunks := kvstore.Chunks{Blocks: many, BlockBytes: blocks.BlockBytes(), PartBytes: up.PartBytes()}
		err := other.fetch(
			hashes, chunks, func(i, part int, b []byte) error { return up.PutPart(context.Background(), i, part, b) },
		)
		if err != nil {
			up.Fail(0, err)
		}
		return err
	}
	var restores, steps []time.Duration
	apart := func() error {
		began := time.Now()
		err := run(newRestore(1))
		restores = append(restores, time.Since(began))
		began = time.Now()
		err = errors.Join(err, step(nil))
		steps = append(steps, time.Since(began))
		return err
	}
	together := func() error {
		restore, done := newRestore(parts), make(chan error)
		go func() { done <- run(restore) }()
		return errors.Join(step(restore), <-done)
	}
	if err := errors.Join(apart(), together()); err != nil {
		return row{}, err
	}
	with, without, ratio, err := paired(restoreRounds, together, apart)
	if err != nil {
		return row{}, err
	}
	return row{fmt.Sprintf("first token after %d tokens from %s: its step overlaps with the restore, in %d parts, "+
		"over after it", 16*many, name, parts),
		fmt.Sprintf(
			"%.2f (%.1f ms against %.1f: restore %.1f, step %.1f)",
			ratio,
			with.Seconds()*1e3,
			without.Seconds()*1e3,
			median(restores).Seconds()*1e3,
			median(steps).Seconds()*1e3,
		), "", ""}, nil
}
