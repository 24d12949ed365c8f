package peft

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/x448/float16"

	"troupe/core/lora"
	"troupe/cuda"
	"troupe/cuda/kernels"
	"troupe/modelfile"
	"troupe/modelfile/safetensors"
)

// Base describes the base model that an adapter must fit.
type Base struct {
	Layers      int
	Projections [lora.Targets]Projection
	DType       cuda.DType // type of adapters on the device
}

// Projection is the shape of a projection's base weight.
type Projection struct{ Out, In int }

// Adapter is an adapter folder that was checked against its base model.
type Adapter struct {
	Config
	Layout  *lora.Layout
	dir     string
	dtype   cuda.DType
	tensors []tensor
}

// tensor is a matrix and its location.
type tensor struct {
	safetensors.Tensor
	offset int64 // in the adapter's address space
}

// Open reads the config and the headers of a PEFT folder and checks both.
func Open(roots modelfile.Roots, dir string, base Base) (*Adapter, error) {
	c, err := ReadConfig(roots, dir)
	if err != nil {
		return nil, err
	}
	if err := c.check(base.Layers); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	path := filepath.Join(dir, "adapter_model.safetensors")
	found, err := safetensors.File(roots, path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf(
			"%s: no adapter_model.safetensors; save the adapter with safe_serialization: %w",
			dir,
			err,
		)
	}
	if err != nil {
		return nil, err
	}
	a := &Adapter{Config: c, Layout: &lora.Layout{}, dir: dir, dtype: base.DType}
	if err := a.match(base, found); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return a, nil
}

// match finds each matrix that the config selects, checks its shape, and assigns its location.
func (a *Adapter) match(base Base, found []safetensors.Tensor) error {
	byName := make(map[string]safetensors.Tensor, len(found))
	for _, t := range found {
		byName[t.Name] = t
	}
	for layer := range base.Layers {
		for target := range lora.Targets {
			if !a.changes(layer, target) {
				continue
			}
			p := base.Projections[target]
			for part, shape := range [][]int{lora.A: {a.Rank, p.In}, lora.B: {p.Out, a.Rank}} {
				m := lora.Matrix{Layer: layer, Target: target, Part: lora.Part(part)}
				name := fmt.Sprintf("base_model.model.%s.lora_%s.weight", path(layer, target), m.Part)
				if err := a.place(m, name, shape, byName); err != nil {
					return err
				}
				delete(byName, name)
			}
		}
	}
	if len(byName) > 0 {
		return fmt.Errorf("%s is not selected by adapter_config.json for this base model",
			modelfile.Named("tensor", slices.Sorted(maps.Keys(byName))...))
	}
	if len(a.tensors) == 0 {
		return errors.New(
			"the adapter changes nothing: target_modules and layers_to_transform select no projection of the base " +
				"model",
		)
	}
	return nil
}

func (a *Adapter) place(m lora.Matrix, name string, shape []int, found map[string]safetensors.Tensor) error {
	t, ok := found[name]
	if !ok {
		return fmt.Errorf("tensor %s is missing; the adapter is incomplete or for another base model", name)
	}
	if !slices.Equal(t.Shape, shape) {
		return fmt.Errorf(
			"tensor %s has shape %v, but rank and base model require %v; the adapter is for another base model",
			name,
			t.Shape,
			shape,
		)
	}
	a.tensors = append(a.tensors, tensor{t, a.Layout.Bytes()})
	a.Layout.Add(m, t.Elements()*a.dtype.Bytes())
	return nil
}

// Read fills into, Layout.Bytes() of host memory, with the adapter's address space in the base
// model's type.
func (a *Adapter) Read(ctx context.Context, into []byte) error {
	if int64(len(into)) != a.Layout.Bytes() {
		return fmt.Errorf("%s: buffer of %d bytes for an adapter of %d", a.dir, len(into), a.Layout.Bytes())
	}
	for _, t := range a.tensors {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := a.read(t, into[t.offset:][:t.Elements()*a.dtype.Bytes()]); err != nil {
			return fmt.Errorf("%s: tensor %s: %w", a.dir, t.Name, err)
		}
	}
	return nil
}

func (a *Adapter) read(t tensor, into []byte) error {
	r, err := t.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	raw := into
	if t.DType != a.dtype {
		raw = make([]byte, t.Elements()*t.DType.Bytes())
	}
	if _, err := io.ReadFull(r, raw); err != nil {
		return fmt.Errorf("%w; the file is damaged; download it again", err)
	}
	if t.DType != a.dtype {
		convert(into, a.dtype, raw, t.DType)
	}
	return nil
}

// convert converts little-endian elements, rounding to nearest, ties to even.
func convert(out []byte, to cuda.DType, in []byte, from cuda.DType) {
	for i := range len(in) / int(from.Bytes()) {
		v := load(in, from, i)
		switch to {
		case cuda.F32:
			binary.LittleEndian.PutUint32(out[4*i:], math.Float32bits(v))
		case cuda.F16:
			binary.LittleEndian.PutUint16(out[2*i:], float16.Fromfloat32(v).Bits())
		case cuda.BF16:
			binary.LittleEndian.PutUint16(out[2*i:], bfloat16(v))
		}
	}
}

func load(in []byte, from cuda.DType, i int) float32 {
	switch from {
	case cuda.F16:
		return kernels.F16ToF32(binary.LittleEndian.Uint16(in[2*i:]))
	case cuda.BF16:
		return math.Float32frombits(uint32(binary.LittleEndian.Uint16(in[2*i:])) << 16)
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(in[4*i:]))
}

// bfloat16 rounds an F32 to its upper half.
func bfloat16(v float32) uint16 {
	bits := math.Float32bits(v)
	if v != v {
		return uint16(bits>>16) | 0x40
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}
