// Package safetensors reads models in the safetensors format: one file, or several with an index.
//
// Files are not trusted: every header is checked whole before a tensor is read.
package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"

	"troupe/cuda"
)

// Bounds of what is read of a header. Those of dense models of 400 billion parameters stay below
// them by a factor of ten; without them a small file could cost gigabytes.
const (
	maxHeader  = 16 << 20 // bytes of a file's header
	maxTensors = 1 << 17  // in a folder
	maxDims    = 8        // of a tensor
)

var dtypes = map[string]cuda.DType{"F32": cuda.F32, "F16": cuda.F16, "BF16": cuda.BF16}

// Tensor is where a tensor is.
type Tensor struct {
	Name  string
	DType cuda.DType
	Shape []int

	file       string
	begin, end int64 // in the file
}

// Elements is how many there are.
func (t Tensor) Elements() int64 {
	n := int64(1)
	for _, d := range t.Shape {
		n *= int64(d)
	}
	return n
}

// Open returns a reader of the tensor's bytes, little-endian and row-major.
func (t Tensor) Open() (io.ReadCloser, error) {
	f, err := os.Open(t.file)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(f, t.begin, t.end-t.begin), f}, nil
}

// Folder reads the headers of a model folder: model.safetensors, or the files that model.safetensors.index.json
// names.
func Folder(dir string) (map[string]Tensor, error) {
	single := filepath.Join(dir, "model.safetensors")
	files, err := shards(filepath.Join(dir, "model.safetensors.index.json"))
	switch {
	case errors.Is(err, os.ErrNotExist):
		files = []string{single}
	case err != nil:
		return nil, err
	}
	all := make(map[string]Tensor)
	for _, file := range files {
		tensors, err := File(file)
		if err != nil {
			return nil, err
		}
		for _, t := range tensors {
			if other, twice := all[t.Name]; twice {
				return nil, fmt.Errorf("%s: tensor %q is in %s too; download the model again", file, t.Name, other.file)
			}
			all[t.Name] = t
		}
		if len(all) > maxTensors {
			return nil, fmt.Errorf("%s: more than %d tensors; no supported model has as many", dir, maxTensors)
		}
	}
	return all, nil
}

// shards returns the files that an index names.
func shards(index string) ([]string, error) {
	b, err := os.ReadFile(index)
	if err != nil {
		return nil, err
	}
	var content struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(b, &content); err != nil {
		return nil, fmt.Errorf("%s: %w; download the model again", index, err)
	}
	var files []string
	for tensor, name := range content.WeightMap {
		switch {
		case name == "" || name == "." || name == "..":
			return nil, fmt.Errorf(
				"%s: weight_map says that tensor %q is in %q, which is not the name of a file; download the model again",
				index, tensor, name)
		case name != filepath.Base(name):
			return nil, fmt.Errorf("%s: tensor %q is in %q, outside the folder; download the model again", index, tensor, name)
		}
		files = append(files, filepath.Join(filepath.Dir(index), name))
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: weight_map names no file; download the model again", index)
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

// File reads one file's header.
func File(path string) ([]Tensor, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	tensors, err := header(f, info.Size())
	if unsupported := (*typeError)(nil); errors.As(err, &unsupported) {
		return nil, fmt.Errorf("%s: %w", path, unsupported)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w; the file is damaged or no safetensors file: download it again", path, err)
	}
	for i := range tensors {
		tensors[i].file = path
	}
	return tensors, nil
}

// header reads and checks the header of a file of so many bytes: 8 bytes of length, then JSON, then the tensors without a
// hole or an overlap.
func header(r io.Reader, size int64) ([]Tensor, error) {
	var prefix [8]byte
	if _, err := io.ReadFull(r, prefix[:]); err != nil {
		return nil, fmt.Errorf("%d bytes are too short for a header", size)
	}
	length := binary.LittleEndian.Uint64(prefix[:])
	if length > maxHeader || int64(length) > size-8 {
		return nil, fmt.Errorf("a header of %d bytes in a file of %d", length, size)
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	tensors, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	slices.SortFunc(tensors, func(a, b Tensor) int { return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end)) })
	data := 8 + int64(length)
	at := int64(0)
	for i, t := range tensors {
		if t.begin != at {
			return nil, fmt.Errorf("tensor %q begins at %d where %d was expected: a hole or an overlap", t.Name, t.begin, at)
		}
		if t.end > size-data {
			return nil, fmt.Errorf("tensor %q ends at %d of %d bytes of data", t.Name, t.end, size-data)
		}
		at = t.end
		tensors[i].begin, tensors[i].end = data+t.begin, data+t.end
	}
	if at != size-data {
		return nil, fmt.Errorf("%d bytes after the last tensor", size-data-at)
	}
	return tensors, nil
}

// parse reads the header's JSON object. It goes through it by tokens, to see names that appear twice.
func parse(text []byte) ([]Tensor, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("not a JSON object")
	}
	seen := make(map[string]bool)
	var tensors []Tensor
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name := key.(string)
		if seen[name] {
			return nil, fmt.Errorf("tensor %q is named twice", name)
		}
		seen[name] = true
		if name == "__metadata__" {
			if err := dec.Decode(&map[string]string{}); err != nil {
				return nil, fmt.Errorf("__metadata__: %w", err)
			}
			continue
		}
		t, err := entry(dec, name)
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", name, err)
		}
		tensors = append(tensors, t)
	}
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("more than one JSON object")
	}
	return tensors, nil
}

func entry(dec *json.Decoder, name string) (Tensor, error) {
	var e struct {
		DType   string   `json:"dtype"`
		Shape   dims     `json:"shape"`
		Offsets [2]int64 `json:"data_offsets"`
	}
	if err := dec.Decode(&e); err != nil {
		return Tensor{}, err
	}
	dtype, ok := dtypes[e.DType]
	if !ok {
		return Tensor{}, refuseType(name, e.DType)
	}
	t := Tensor{Name: name, DType: dtype, begin: e.Offsets[0], end: e.Offsets[1]}
	bytes := dtype.Bytes()
	for _, d := range e.Shape {
		if d < 0 || d > math.MaxInt32 || (d > 0 && bytes > math.MaxInt64/d) {
			return Tensor{}, fmt.Errorf("shape %v is out of range", e.Shape)
		}
		bytes *= d
		t.Shape = append(t.Shape, int(d))
	}
	if t.begin < 0 || t.end < t.begin || t.end-t.begin != bytes {
		return Tensor{}, fmt.Errorf("%d bytes at %v do not hold %s %v", t.end-t.begin, e.Offsets, e.DType, e.Shape)
	}
	return t, nil
}
