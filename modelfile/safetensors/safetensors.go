// Package safetensors reads models in the safetensors format: one file, or several with an index.
//
// Files are not trusted: a header is checked completely before a tensor is read.
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
	"regexp"
	"slices"

	"troupe/cuda"
	"troupe/modelfile"
	"troupe/modelfile/digest"
)

// Limits of a header. Dense models with 400 billion parameters need a tenth of them. Without limits
// a small file could use gigabytes of memory.
const (
	maxHeader  = 16 << 20 // bytes per header
	maxTensors = 1 << 17  // per file, and per folder
	maxDims    = 8        // per tensor
)

var dtypes = map[string]cuda.DType{"F32": cuda.F32, "F16": cuda.F16, "BF16": cuda.BF16}

// Tensor is the description of a tensor in a file.
type Tensor struct {
	Name  string
	DType cuda.DType
	Shape []int

	roots      modelfile.Roots
	file       string
	stamp      digest.Stamp // of the file when its header was read
	begin, end int64        // byte range in the file
}

// Place is the byte range of a tensor, and the file as it was when its header was read.
type Place struct {
	File       string
	Stamp      digest.Stamp
	Begin, End int64
}

// Place returns where the tensor's bytes are.
func (t Tensor) Place() Place { return Place{t.file, t.stamp, t.begin, t.end} }

// Elements returns the number of elements.
func (t Tensor) Elements() int64 {
	n := int64(1)
	for _, d := range t.Shape {
		n *= int64(d)
	}
	return n
}

// Open returns a reader of the tensor's bytes, little-endian and row-major.
func (t Tensor) Open() (io.ReadCloser, error) {
	f, err := t.roots.Open(t.file)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(f, t.begin, t.end-t.begin), f}, nil
}

// Folder reads the headers of a model folder: model.safetensors, or the files listed in
// model.safetensors.index.json.
func Folder(roots modelfile.Roots, dir string) (map[string]Tensor, error) {
	files, err := Files(roots, dir)
	if err != nil {
		return nil, err
	}
	all := make(map[string]Tensor)
	for _, file := range files {
		tensors, err := File(roots, file)
		if err != nil {
			return nil, err
		}
		for _, t := range tensors {
			if other, twice := all[t.Name]; twice {
				return nil, fmt.Errorf(
					"%s: one of its tensors is also in %s; download the model again",
					file,
					other.file,
				)
			}
			all[t.Name] = t
		}
		if len(all) > maxTensors {
			return nil, fmt.Errorf("%s: more than %d tensors; no supported model has that many", dir, maxTensors)
		}
	}
	return all, nil
}

// Files returns the files of a model folder's weights, in the order of their names. Without an index it is one
// file, which need not exist.
func Files(roots modelfile.Roots, dir string) ([]string, error) {
	files, err := shards(roots, filepath.Join(dir, "model.safetensors.index.json"))
	if errors.Is(err, os.ErrNotExist) {
		return []string{filepath.Join(dir, "model.safetensors")}, nil
	}
	return files, err
}

// shardName matches the file names that an index may contain. Errors show no other names.
var shardName = regexp.MustCompile(`^[\w-][\w.-]{0,200}\.safetensors$`)

// shards returns the files that an index lists.
func shards(roots modelfile.Roots, index string) ([]string, error) {
	b, err := roots.Read(index, modelfile.Index)
	if err != nil {
		return nil, err
	}
	var content struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := modelfile.Unmarshal(b, &content); err != nil {
		return nil, fmt.Errorf("%s: %w; download the model again", index, err)
	}
	var files []string
	for _, name := range content.WeightMap {
		if !shardName.MatchString(name) {
			return nil, fmt.Errorf(
				"%s: weight_map names a file that is not a safetensors file, or is outside the folder; download the "+
					"model again",
				index,
			)
		}
		files = append(files, filepath.Join(filepath.Dir(index), name))
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: weight_map names no file; download the model again", index)
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

// File reads the header of one file.
func File(roots modelfile.Roots, path string) ([]Tensor, error) {
	f, err := roots.Open(path)
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
		return nil, fmt.Errorf("%s: %w; the file is damaged or not a safetensors file; download it again", path, err)
	}
	for i := range tensors {
		tensors[i].roots, tensors[i].file, tensors[i].stamp = roots, path, digest.StampOf(info)
	}
	return tensors, nil
}

// header reads and checks the header of a file of the given size: 8 bytes of length, then JSON,
// then the tensors without holes or overlaps.
func header(r io.Reader, size int64) ([]Tensor, error) {
	var prefix [8]byte
	if _, err := io.ReadFull(r, prefix[:]); err != nil {
		return nil, fmt.Errorf("%d bytes are too short for a header", size)
	}
	length := binary.LittleEndian.Uint64(prefix[:])
	if length > maxHeader || int64(length) > size-8 {
		return nil, fmt.Errorf("header is longer than %d bytes, or than the file", maxHeader)
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	tensors, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	slices.SortFunc(
		tensors,
		func(a, b Tensor) int { return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end)) },
	)
	data := 8 + int64(length)
	at := int64(0)
	for i, t := range tensors {
		if t.begin != at {
			return nil, fmt.Errorf(
				"tensor %d of %d by offset does not start where the previous one ends",
				i+1,
				len(tensors),
			)
		}
		if t.end > size-data {
			return nil, fmt.Errorf("tensor %d of %d by offset ends beyond the file", i+1, len(tensors))
		}
		at = t.end
		tensors[i].begin, tensors[i].end = data+t.begin, data+t.end
	}
	if at != size-data {
		return nil, fmt.Errorf("%d bytes after the last tensor", size-data-at)
	}
	return tensors, nil
}

// parse reads the header's JSON object token by token, to detect duplicate names.
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
			return nil, modelfile.RedactJSONError(err)
		}
		name := key.(string)
		if seen[name] {
			return nil, fmt.Errorf("tensor %d is named twice", len(seen)+1)
		}
		if seen[name] = true; len(seen) > maxTensors {
			return nil, fmt.Errorf("more than %d tensors", maxTensors)
		}
		if name == "__metadata__" {
			if err := dec.Decode(&map[string]string{}); err != nil {
				return nil, fmt.Errorf("__metadata__: %w", modelfile.RedactJSONError(err))
			}
			continue
		}
		t, err := entry(dec, name)
		if err != nil {
			return nil, fmt.Errorf("tensor %d: %w", len(seen), err)
		}
		tensors = append(tensors, t)
	}
	if _, err := dec.Token(); err != nil {
		return nil, modelfile.RedactJSONError(err)
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
	err := dec.Decode(&e)
	if errors.Is(err, errDims) || errors.Is(err, errShape) {
		return Tensor{}, err
	}
	if err != nil {
		return Tensor{}, modelfile.RedactJSONError(err)
	}
	dtype, ok := dtypes[e.DType]
	if !ok {
		return Tensor{}, unsupportedType(name, e.DType)
	}
	t := Tensor{Name: name, DType: dtype, begin: e.Offsets[0], end: e.Offsets[1]}
	bytes := dtype.Bytes()
	for _, d := range e.Shape {
		if d < 0 || d > math.MaxInt32 || (d > 0 && bytes > math.MaxInt64/d) {
			return Tensor{}, fmt.Errorf("shape is out of range")
		}
		bytes *= d
		t.Shape = append(t.Shape, int(d))
	}
	if t.begin < 0 || t.end < t.begin || t.end-t.begin != bytes {
		return Tensor{}, fmt.Errorf("data_offsets do not match type and shape")
	}
	return t, nil
}
