package llama_test

import (
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"troupe/core/lora"
	"troupe/core/sample"
	"troupe/cuda"
	"troupe/cuda/host"
	"troupe/engine"
	"troupe/engine/llama"
	"troupe/engine/residency"
	"troupe/testkit"
)

// arena is device memory for adapters whose pages are allocated in random order.
type arena struct {
	*engine.AdapterMemory
	device cuda.Device
	model  string
	pages  *lora.Pages
}

func newArena(t testing.TB, device cuda.Device, model string) *arena {
	t.Helper()
	a, err := engine.NewAdapterMemory(device, 16, 16)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	numbers := a.PageNumbers()
	rand.New(rand.NewPCG(9, 9)).
		Shuffle(len(numbers), func(i, j int) { numbers[i], numbers[j] = numbers[j], numbers[i] })
	return &arena{a, device, model, lora.NewPages(numbers)}
}

// load loads a PEFT folder into device memory.
func (a *arena) load(t testing.TB, dir string) *engine.Adapter {
	t.Helper()
	file, err := llama.Loader{}.OpenAdapter(a.model, dir, a.device.Info())
	if err != nil {
		t.Fatal(err)
	}
	return a.put(t, file)
}

func (a *arena) put(t testing.TB, file engine.AdapterFile) *engine.Adapter {
	t.Helper()
	staged, err := a.Stage(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	defer staged.Free()
	pages, ok := a.pages.Allocate(file.Layout.Pages())
	if !ok {
		t.Fatalf("fewer than %d pages are left", file.Layout.Pages())
	}
	adapter, err := a.Load(t.Context(), file, staged.Bytes(), nil, pages)
	if err != nil {
		t.Fatal(err)
	}
	return adapter
}

// TestAdapterTypeFollowsModel checks that an adapter has the type of its model's matrices, even
// on a device that prefers another type.
func TestAdapterTypeFollowsModel(t *testing.T) {
	image := func(best cuda.DType) []byte {
		file, err := llama.Loader{}.OpenAdapter(testkit.Model(), filepath.Join(testkit.Model(), "adapters",
			"psalms"), cuda.Info{Weights: best})
		if err != nil {
			t.Fatal(err)
		}
		into := make([]byte, file.Layout.Bytes())
		if err := file.Read(t.Context(), into); err != nil {
			t.Fatal(err)
		}
		return into
	}
	if !slices.Equal(image(cuda.BF16), image(cuda.F16)) { // the model has F16 matrices
		t.Error("on a device that prefers BF16, the adapter of an F16 model is not F16")
	}
}

// adapterGoldens checks the reference outputs of each adapter alone, and in a batch with all other
// adapters and the base model.
func adapterGoldens(t *testing.T, model, base string, goldens map[string]string) {
	var gs []*generation
	var wants [][]uint32
	var dirs []string
	add := func(dir, file string) {
		for _, g := range testkit.JSONLines[testkit.Golden](t, file) {
			gs = append(gs, &generation{prompt: g.PromptIDs, want: len(g.OutputIDs)})
			wants, dirs = append(wants, g.OutputIDs), append(dirs, dir)
		}
	}
	add("", base)
	for _, dir := range slices.Sorted(maps.Keys(goldens)) {
		add(dir, goldens[dir])
	}
	r := rand.New(rand.NewPCG(5, 6))
	e, device := openDevice(t, model, assignBlocks(r, gs))
	arena := newArena(t, device, model)
	loaded := map[string]*engine.Adapter{"": nil}
	for dir := range goldens {
		loaded[dir] = arena.load(t, dir)
	}
	check := func(how string) {
		t.Helper()
		for i, g := range gs {
			if !slices.Equal(g.output, wants[i]) {
				t.Errorf("%s, %q: got %v, want %v", how, filepath.Base(dirs[i]), g.output, wants[i])
			}
			g.tokens, g.output, g.computed = nil, nil, 0
		}
	}
	for i, g := range gs {
		g.adapter = loaded[dirs[i]]
		runAlone(t, e, g)
	}
	check("alone")
	for slices.ContainsFunc(gs, func(g *generation) bool { return !g.done() }) {
		stepRandomBatch(t, e, r, gs)
	}
	check("in a batch")
}

// stepRandomBatch runs a step with a random choice of generations, in random order and with random
// chunks of their prompts.
func stepRandomBatch(t *testing.T, e engine.Engine, r *rand.Rand, gs []*generation) {
	t.Helper()
	var batch []engine.Sequence
	var who []*generation
	for _, i := range r.Perm(len(gs)) {
		if g := gs[i]; !g.done() && len(batch) < limits.MaxSequences && r.IntN(8) > 0 {
			batch, who = append(batch, g.next(1+r.IntN(12))), append(who, g)
		}
	}
	if len(batch) == 0 {
		return
	}
	tokens, err := e.Step(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	for i, g := range who {
		tokens = g.advance(batch[i], tokens)
	}
}

func TestAdapterGoldens(t *testing.T) {
	goldens := map[string]string{}
	for _, name := range []string{"psalms", "proverbs", "shout"} {
		dir := filepath.Join(testkit.Model(), "adapters", name)
		goldens[dir] = filepath.Join(dir, "golden_greedy.jsonl")
	}
	adapterGoldens(t, testkit.Model(), filepath.Join(testkit.Model(), "golden_greedy.jsonl"), goldens)
}

func TestStoriesAdapterGoldens(t *testing.T) {
	goldens := map[string]string{}
	for _, name := range []string{"dragon", "robot"} {
		dir := testkit.Shared(t, "data/models/stories260K-lora/"+name)
		goldens[dir] = filepath.Join(dir, "golden_greedy48.jsonl")
	}
	adapterGoldens(
		t, testkit.Shared(t, "data/models/stories260K-hf"),
		testkit.Shared(t, "data/models/stories260K/golden_greedy64.jsonl"), goldens,
	)
}

// TestAdaptersDoNotAffectOthers shows that the log-probabilities of a sequence are bit-identical
// with and without sequences of other adapters in the batch.
func TestAdaptersDoNotAffectOthers(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	var gs []*generation
	for i := range 8 {
		g := &generation{
			want: 12, params: sample.Params{Seed: uint64(i), Logprobs: true, TopLogprobs: 2, Temperature: 0.8},
		}
		for range 1 + r.IntN(40) {
			g.prompt = append(g.prompt, uint32(3+r.IntN(1000)))
		}
		gs = append(gs, g)
	}
	e, device := openDevice(t, testkit.Model(), assignBlocks(r, gs))
	arena := newArena(t, device, testkit.Model())
	adapters := []*engine.Adapter{nil}
	for _, name := range []string{"psalms", "proverbs", "shout"} {
		adapters = append(adapters, arena.load(t, filepath.Join(testkit.Model(), "adapters", name)))
	}
	var want [][]sample.Token
	for i, g := range gs {
		g.adapter = adapters[i%len(adapters)]
		runAlone(t, e, g)
		want = append(want, g.tokens)
		g.tokens, g.output, g.computed = nil, nil, 0
	}
	for slices.ContainsFunc(gs, func(g *generation) bool { return !g.done() }) {
		stepRandomBatch(t, e, r, gs)
	}
	for i, g := range gs {
		for j, got := range g.tokens {
			if got.ID != want[i][j].ID || got.Logprob != want[i][j].Logprob || !slices.Equal(got.Top, want[i][j].Top) {
				t.Fatalf("sequence %d, token %d: %v in the batch, %v alone", i, j, got, want[i][j])
			}
		}
	}
}

// TestStepRefusesAdapters checks that a step refuses adapters that do not fit in the tables.
func TestStepRefusesAdapters(t *testing.T) {
	e, device := openDevice(t, testkit.Model(), 8)
	arena := newArena(t, device, testkit.Model())
	good := arena.load(t, filepath.Join(testkit.Model(), "adapters", "psalms"))
	step := func(adapters ...*engine.Adapter) error {
		var batch []engine.Sequence
		for i, a := range adapters {
			batch = append(
				batch, engine.Sequence{Tokens: []uint32{5}, Blocks: []int32{int32(i)}, Sample: true, Adapter: a},
			)
		}
		_, err := e.Step(t.Context(), batch)
		return err
	}
	clone := func(change func(*engine.Adapter)) *engine.Adapter {
		a := *good
		if change != nil {
			change(&a)
		}
		return &a
	}
	deep := &lora.Layout{}
	deep.Add(lora.Matrix{Layer: 6}, 16)
	for want, bad := range map[string][]*engine.Adapter{
		"rank 17":            {clone(func(a *engine.Adapter) { a.Rank = 17 })},
		"rank 0":             {clone(func(a *engine.Adapter) { a.Rank = 0 })},
		"1 pages has 0":      {clone(func(a *engine.Adapter) { a.Pages = nil })},
		"layer 6":            {clone(func(a *engine.Adapter) { a.Layout = deep })},
		"5 adapters":         {good, clone(nil), clone(nil), clone(nil), clone(nil)},
		"supports at most 2": {clone(func(a *engine.Adapter) { a.Pages = make([]cuda.Ptr, 9) })},
	} {
		if err := step(bad...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if err := step(good, nil, clone(nil), clone(nil), clone(nil)); err != nil {
		t.Errorf("after refusals: %v", err)
	}
}

// TestAdapterWorkspaceAsDeclared checks that adapters add to an engine's memory what ModelInfo
// declares, up to alignment.
func TestAdapterWorkspaceAsDeclared(t *testing.T) {
	taken := func(l engine.Limits) (bytes, counted int64) {
		device, err := host.Open(host.Config{MemoryBytes: 64 << 20})
		if err != nil {
			t.Fatal(err)
		}
		defer device.Close()
		store := residency.NewStore(device, llama.Loader{})
		loaded, err := store.Load(
			t.Context(),
			engine.LoadSpec{Lease: "x", Path: testkit.Model(), BlockTokens: blockTokens, KVBlocks: 1, Limits: l},
		)
		if err != nil {
			t.Fatal(err)
		}
		before, _ := device.Memory()
		e, err := store.Open("x")
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		after, _ := device.Memory()
		return before - after, loaded.Info.WorkspaceBytes(l)
	}
	without := limits
	without.MaxAdapters, without.MaxRank = 0, 0
	bytes, counted := taken(limits)
	bytesWithout, countedWithout := taken(without)
	if got, want := bytes-bytesWithout, counted-countedWithout; got < want || got > want+2*256 {
		t.Errorf("took %d bytes, declared %d", got, want)
	}
}
