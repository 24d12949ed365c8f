package kernels_test

import (
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"troupe/cuda"
	"troupe/cuda/kernels"
	"troupe/testkit"
	"troupe/testkit/kernelhost"
)

// everyEntry returns an op for each entry point.
func everyEntry() []cuda.Op {
	ops := []cuda.Op{
		kernels.Embed{
			N: 1,
		}, kernels.RMSNorm{N: 1}, kernels.Rope{N: 1, Heads: 1}, kernels.StoreKV{N: 1}, kernels.SiluMul{N: 1},
		kernels.GatherRows{
			N: 1,
		}, kernels.GatherBlocks{N: 1, BlockBytes: 4}, kernels.ScatterBlocks{N: 1, BlockBytes: 4}, kernels.TopK{N: 1},
		kernels.LoRAShrink{N: 1, A: kernels.LoRA{MaxRank: 1}}, kernels.LoRAExpand{N: 1, Dim: 1},
		kernels.MatMul{
			M:     1,
			N:     1,
			K:     8,
			DType: cuda.F32,
		}, kernels.SplitRows{M: 1, K: 1}, kernels.JoinRows{M: 1, N: 1},
	}
	for _, t := range []cuda.DType{cuda.F16, cuda.BF16} {
		ops = append(ops, kernels.MatMul{M: 1, N: 1, K: 7, DType: t})
		for _, m := range []int32{8, 16, 32, 33} {
			ops = append(ops, kernels.MatMul{M: m, N: 1, K: 8, DType: t})
		}
	}
	for _, dim := range []int32{64, 128, 256} {
		for _, heads := range []int32{1, 4} {
			ops = append(ops, kernels.Attention{N: 1, Heads: heads, KV: kernels.KVLayout{KVHeads: 1, HeadDim: dim}})
		}
	}
	return ops
}

// kernel describes an entry point in the code.
type kernel struct{ paramBytes, threads int }

var (
	entryPTX = regexp.MustCompile(`(?s)\.entry (\w+)\(\s*(.*?)\s*\)\s*\.maxntid (\d+), 1, 1`)
	paramPTX = regexp.MustCompile(`^\.param \.align \d+ \.b8 \w+\[(\d+)\]$`)
)

// TestPTX: each op's entry point is in the PTX, with the right number of threads and the op, by
// value, as its only parameter, and there are no others. The code does not run.
func TestPTX(t *testing.T) {
	for _, code := range kernels.Code(9, 0) {
		found := map[string]kernel{}
		for _, m := range entryPTX.FindAllStringSubmatch(string(code), -1) {
			param := paramPTX.FindStringSubmatch(m[2])
			if param == nil {
				t.Fatalf("%s has other parameters than one struct: %s", m[1], m[2])
			}
			bytes, _ := strconv.Atoi(param[1])
			threads, _ := strconv.Atoi(m[3])
			found[m[1]] = kernel{bytes, threads}
		}
		sameEntries(t, found)
		if n := strings.Count(string(code), ".entry "); n != len(found) {
			t.Errorf("parsed %d entries of %d", len(found), n)
		}
		if strings.Contains(string(code), ".local") {
			t.Error("a kernel has an array in local memory: one of its indices is not a compile-time constant")
		}
	}
	if kernels.Code(7, 5) != nil {
		t.Error("Code returns PTX for devices that cannot run it")
	}
}

// TestHostBuild: the same holds for the code that is tested on the CPU.
func TestHostBuild(t *testing.T) {
	library, found := kernelhost.Load(t), map[string]kernel{}
	for entry, bytes := range library.Entries() {
		found[entry] = kernel{paramBytes: bytes}
	}
	for _, op := range everyEntry() { // the library rejects another number of threads at the launch
		entry, g, _ := kernels.Launch(op)
		found[entry] = kernel{found[entry].paramBytes, int(g.BlockX)}
	}
	sameEntries(t, found)
}

func sameEntries(t *testing.T, found map[string]kernel) {
	t.Helper()
	want := map[string]kernel{}
	for _, op := range everyEntry() {
		entry, g, ok := kernels.Launch(op)
		if !ok || g.GridX == 0 {
			t.Fatalf("%#v: %q, %+v, %v", op, entry, g, ok)
		}
		want[entry] = kernel{int(reflect.TypeOf(op).Size()), int(g.BlockX)}
	}
	if !maps.Equal(found, want) {
		t.Errorf("entries are %v, want %v", found, want)
	}
}

// TestLayout: a C compiler lays out the structs of ops.h like Go those of ops.go.
func TestLayout(t *testing.T) {
	compiler, err := exec.LookPath("g++")
	if err != nil {
		t.Skip("NOT TESTED: the layout of kernel arguments, since there is no g++; install it")
	}
	source, seen := "#include <stddef.h>\n#include \"ops.h\"\n", map[reflect.Type]bool{}
	for _, op := range everyEntry() {
		source += asserts(reflect.TypeOf(op), seen)
	}
	check := exec.Command(
		compiler,
		"-std=c++17",
		"-fsyntax-only",
		"-I",
		filepath.Join(testkit.Root(), "cuda/kernels/cu"),
		"-x",
		"c++",
		"-",
	)
	check.Stdin = strings.NewReader(source)
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if len(seen) != 17 { // including KVLayout and LoRA
		t.Errorf("%d structs were checked", len(seen))
	}
}

// asserts returns C assertions about a struct and the structs in it: sizes, offsets, and no further
// fields.
func asserts(s reflect.Type, seen map[reflect.Type]bool) string {
	if seen[s] {
		return ""
	}
	seen[s] = true
	inner, all := "", fmt.Sprintf("static_assert(sizeof(%s) == %d);\n", s.Name(), s.Size())
	var names []string
	for _, f := range reflect.VisibleFields(s) {
		names = append(names, f.Name)
		all += fmt.Sprintf(
			"static_assert(offsetof(%s, %s) == %d && sizeof(%[1]s::%[2]s) == %[4]d);\n",
			s.Name(),
			f.Name,
			f.Offset,
			f.Type.Size(),
		)
		if f.Type.Kind() == reflect.Struct {
			inner += asserts(f.Type, seen)
		}
	}
	return inner + all + fmt.Sprintf(
		"void %s_fields(%[1]s &x) { auto &[%s] = x; }\n",
		s.Name(),
		strings.Join(names, ", "),
	)
}
