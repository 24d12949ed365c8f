package models

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"troupe/cuda"
	"troupe/modelfile"
	"troupe/modelfile/safetensors"
)

// settings are the files of a model folder besides its weights. Only config.json is required.
var settings = []string{"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"}

// chunkBytes is how much of a file is in memory at once.
const chunkBytes = 1 << 20

// perturbed has the bits of an element that Perturb flips at random: the fraction.
// Sign and exponent stay, so each element stays within a factor of 2.
var perturbed = map[cuda.DType]uint32{cuda.F32: 1<<23 - 1, cuda.F16: 1<<10 - 1, cuda.BF16: 1<<7 - 1}

// Perturb writes to dir the model in the folder base with other weights, which depend on the seed.
// It creates dir.
func Perturb(base, dir string, seed uint64) error {
	if err := copySettings(base, dir, settings...); err != nil {
		return err
	}
	files, err := safetensors.Files(modelfile.Roots{}, base)
	if err != nil {
		return err
	}
	random := rand.NewPCG(seed, 1)
	for _, file := range files {
		if err := perturbFile(file, filepath.Join(dir, filepath.Base(file)), random); err != nil {
			return err
		}
	}
	index := filepath.Join(base, "model.safetensors.index.json")
	if _, err := os.Stat(index); err != nil {
		return nil
	}
	return copySettings(base, dir, filepath.Base(index))
}

// copySettings copies those of the files that exist.
func copySettings(base, dir string, names ...string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(base, name))
		if os.IsNotExist(err) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), b, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func perturbFile(from, to string, random *rand.PCG) error {
	tensors, err := safetensors.File(modelfile.Roots{}, from)
	if err != nil {
		return err
	}
	slices.SortFunc(tensors, func(a, b safetensors.Tensor) int {
		return cmp.Compare(a.Place().Begin, b.Place().Begin)
	})
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	if len(tensors) == 0 {
		return fmt.Errorf("%s: no tensors", from)
	}
	return create(to, func(out io.Writer) error {
		if _, err := io.CopyN(out, in, tensors[0].Place().Begin); err != nil { // the header
			return err
		}
		chunk := make([]byte, chunkBytes)
		for _, t := range tensors {
			mask := laneMask(t.DType, perturbed[t.DType])
			for left := t.Place().End - t.Place().Begin; left > 0; {
				part := chunk[:min(left, chunkBytes)]
				if _, err := io.ReadFull(in, part); err != nil {
					return err
				}
				eachWord(part, func(word uint64) uint64 { return word ^ random.Uint64()&mask })
				if _, err := out.Write(part); err != nil {
					return err
				}
				left -= int64(len(part))
			}
		}
		return nil
	})
}

// create writes a file through a buffer.
func create(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	b := bufio.NewWriterSize(f, chunkBytes)
	return cmp.Or(write(b), b.Flush(), f.Close())
}
