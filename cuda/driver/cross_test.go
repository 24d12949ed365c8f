//go:build linux

package driver

import (
	"sync"
	"testing"

	"github.com/ebitengine/purego"

	"troupe/testkit/fakecuda"
)

func function(t testing.TB, name string) uintptr {
	t.Helper()
	handle, err := purego.Dlopen(fakecuda.Path(t), purego.RTLD_NOW)
	if err != nil {
		t.Fatal(err)
	}
	at, err := purego.Dlsym(handle, name)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// weigh returns a command with twelve distinguishable arguments.
func weigh(fn uintptr, sum *uint64, seed uintptr) (c command, want uint64) {
	c = command{fn: fn, args: [maxArgs]uintptr{address(sum)}}
	for i := uintptr(1); i < maxArgs; i++ {
		c.args[i] = seed<<40 + i*i
		want += uint64(i * c.args[i])
	}
	return c, want
}

// TestCross tests the assembly and the runtime function that calls it: arguments arrive in place,
// with stacks of many sizes, on many threads, in order and up to the first failure.
func TestCross(t *testing.T) {
	fn := function(t, "fakecuda_weigh")
	var all sync.WaitGroup
	for g := range uintptr(8) {
		all.Go(func() {
			for round := range uintptr(300) {
				deep(int(round)*10, func() { crossOnce(t, fn, g*1000+round) })
			}
		})
	}
	all.Wait()
}

func crossOnce(t *testing.T, fn uintptr, seed uintptr) {
	const n = 64
	sums, want := make([]*uint64, n), make([]uint64, n)
	commands := make([]command, n)
	for i := range commands {
		sums[i] = out[uint64]()
		commands[i], want[i] = weigh(fn, sums[i], seed+uintptr(i))
	}
	if done, result := cross(commands); done != n || result != success {
		t.Errorf("%d of %d commands done: %d", done, n, result)
	}
	for i := range want {
		if *sums[i] != want[i] {
			t.Fatalf("command %d got other arguments", i)
		}
	}
}

// deep grows the stack before it calls f.
func deep(n int, f func()) {
	if n == 0 {
		f()
		return
	}
	var frame [64]byte
	deep(n-1, f)
	_ = frame
}

func TestCrossStopsAtFailure(t *testing.T) {
	attribute, nothing := function(t, "cuInit"), function(t, "fakecuda_nothing")
	fails := command{fn: attribute, args: [maxArgs]uintptr{1}} // an invalid flag
	if done, result := cross([]command{{fn: nothing}, {fn: nothing}, fails, {fn: nothing}}); done != 2 || result != 1 {
		t.Errorf("%d done, then %d", done, result)
	}
	if done, result := cross(nil); done != 0 || result != success {
		t.Errorf("empty list: %d done, then %d", done, result)
	}
}

// TestOut: memory that the library writes to does not move with the stack.
func TestOut(t *testing.T) {
	done := make(chan bool)
	go func() { // a small stack
		p := out[uint64]()
		before := address(p)
		deep(10_000, func() {})
		done <- address(p) == before
	}()
	if !<-done {
		t.Error("out returned stack memory")
	}
}
