package safetensors_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"troupe/modelfile"
	"troupe/modelfile/safetensors"
)

// file returns a safetensors file with a header and the given number of data bytes.
func file(header string, data int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, data)...)
}

func save(t testing.TB, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.safetensors")
	write(t, path, b)
	return path
}

func write(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

const good = `{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},` +
	`"b":{"dtype":"BF16","shape":[1,3],"data_offsets":[8,14]}}`

func TestReadsHeader(t *testing.T) {
	got, err := safetensors.File(modelfile.Roots{}, save(t, file(good, 14)))
	if err != nil || len(got) != 2 || got[0].Name != "a" || got[1].Elements() != 3 {
		t.Fatalf("%v, %v", got, err)
	}
}

func TestRejectsInvalidHeaders(t *testing.T) {
	one := func(entry string) []byte { return file(`{"a":`+entry+`}`, 8) }
	for name, tc := range map[string]struct {
		file []byte
		want string // substring of the error
	}{
		"empty":                   {nil, "too short"},
		"header longer than file": {file(good, 14)[:20], "or than the file"},
		"header of absurd length": {
			append([]byte{255, 255, 255, 255, 255, 255, 255, 255}, "{}"...), "header is longer",
		},
		"no JSON":         {file(`nonsense`, 0), "not a JSON object"},
		"unfinished JSON": {file(`{"a":`, 0), "header"},
		"overlap": {
			file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],`+
				`"data_offsets":[4,8]}}`, 8), "tensor 2 of 2 by offset does not start",
		},
		"hole": {
			file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, 8), "tensor 1 of 1 by offset does not start",
		},
		"out of range":        {file(good, 10), "tensor 2 of 2 by offset ends"},
		"bytes after the end": {file(good, 20), "6 bytes after"},
		"same name twice": {
			file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],`+
				`"data_offsets":[4,8]}}`, 8), "named twice",
		},
		"F64": {one(`{"dtype":"F64","shape":[1],"data_offsets":[0,8]}`),
			"tensor a is of type F64; F32, F16 and BF16 are supported: save the model as"},
		"I32": {one(`{"dtype":"I32","shape":[2],"data_offsets":[0,8]}`),
			"of type I32; F32, F16 and BF16 are supported: weights of that type are quantized"},
		"FP8": {one(`{"dtype":"F8_E4M3","shape":[8],"data_offsets":[0,8]}`),
			"of type F8_E4M3; F32, F16 and BF16 are supported: weights of that type are quantized"},
		"F64, of an unusual name": {file(`{"a b":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}}`, 8),
			"a tensor with an unusual name is of type F64"},
		"many dimensions": {one(`{"dtype":"F32","shape":[2,1,1,1,1,1,1,1,1],"data_offsets":[0,8]}`),
			"tensor 1: shape has more than 8 dimensions"},
		"shape of text": {
			one(`{"dtype":"F32","shape":["secret"],"data_offsets":[0,8]}`), "tensor 1: shape is not a list",
		},
		"shape that is a number": {
			one(`{"dtype":"F32","shape":2,"data_offsets":[0,8]}`), "tensor 1: shape is not a list",
		},
		"unknown type":           {one(`{"dtype":"F8","shape":[8],"data_offsets":[0,8]}`), "tensor 1: type is unknown"},
		"type that does not fit": {one(`{"dtype":"F16","shape":[2],"data_offsets":[0,8]}`), "do not match"},
		"negative shape":         {one(`{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}`), "out of range"},
		"shape that overflows": {
			one(`{"dtype":"F32","shape":[2147483647,2147483647,2147483647],"data_offsets":[0,8]}`), "out of range",
		},
		"offsets that run back": {one(`{"dtype":"F32","shape":[2],"data_offsets":[8,0]}`), "do not match"},
		"negative offset":       {one(`{"dtype":"F32","shape":[2],"data_offsets":[-8,0]}`), "do not match"},
		"offsets beyond int64": {
			one(`{"dtype":"F32","shape":[2],"data_offsets":[0,99999999999999999999]}`), "tensor 1",
		},
		"text after the header": {file(good+"{}", 14), "more than one JSON object"},
		"name of two lines":     {file(`{"a\nb":{"dtype":"F32","shape":[1],"data_offsets":[0,2]}}`, 2), "tensor 1"},
		"metadata of numbers":   {file(`{"__metadata__":{"a":1}}`, 0), "__metadata__"},
	} {
		path := save(t, tc.file)
		_, err := safetensors.File(modelfile.Roots{}, path)
		if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), path) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFolderOfShards checks the errors for faults in an index or in the files that it lists.
func TestFolderOfShards(t *testing.T) {
	one := file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4)
	for name, tc := range map[string]struct {
		index string
		files []string // each contains tensor a
		want  string
	}{
		"two dots": {`{"weight_map":{"a":".."}}`, nil,
			"weight_map names a file that is not a safetensors file"},
		"outside the folder": {`{"weight_map":{"a":"../secret"}}`, nil, "outside the folder"},
		"no map":             {`{}`, nil, "weight_map names no file"},
		"no JSON":            {`nonsense`, nil, "model.safetensors.index.json: invalid"},
		"file missing": {
			`{"weight_map":{"a":"one.safetensors","b":"two.safetensors"}}`, []string{"one.safetensors"},
			"two.safetensors: no such file",
		},
		"tensor twice": {
			`{"weight_map":{"a":"one.safetensors","b":"two.safetensors"}}`,
			[]string{"one.safetensors", "two.safetensors"}, "one of its tensors is also in",
		},
	} {
		dir := t.TempDir()
		for _, f := range tc.files {
			write(t, filepath.Join(dir, f), one)
		}
		write(t, filepath.Join(dir, "model.safetensors.index.json"), []byte(tc.index))
		if _, err := safetensors.Folder(modelfile.Roots{}, dir); err == nil ||
			!strings.Contains(err.Error(), tc.want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestUnsupportedTypesAreNotDamage: errors about intact files do not claim damage.
func TestUnsupportedTypesAreNotDamage(t *testing.T) {
	_, err := safetensors.File(
		modelfile.Roots{},
		save(t, file(`{"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}}`, 8)),
	)
	if err == nil || strings.Contains(err.Error(), "damaged") || strings.Contains(err.Error(), "download") {
		t.Error(err)
	}
}

func FuzzFile(f *testing.F) {
	f.Add(file(good, 14))
	f.Add(file(`{"a":{"dtype":"F16","shape":[],"data_offsets":[0,2]}}`, 2))
	f.Add(
		file(
			`{"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"b":{"dtype":"F32","shape":[0],"data_offsets":[0,`+
				`0]}}`,
			0,
		),
	)
	f.Add(
		file(
			`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,`+
				`8]}}`,
			8,
		),
	)
	f.Fuzz(func(t *testing.T, b []byte) {
		tensors, err := safetensors.File(modelfile.Roots{}, save(t, b))
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Fatalf("an error of several lines: %v", err)
			}
			return
		}
		var bytes int64
		for _, tensor := range tensors {
			bytes += tensor.Elements() * tensor.DType.Bytes()
		}
		if bytes > int64(len(b)) {
			t.Fatalf("tensors of %d bytes in a file of %d", bytes, len(b))
		}
	})
}
