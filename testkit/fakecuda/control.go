//go:build linux

package fakecuda

import (
	"runtime"
	"testing"

	"github.com/ebitengine/purego"
)

// Fake is the library in this process. There is one, whatever path it was built at.
type Fake struct {
	Path    string
	control func(command string) int64
}

// Open builds and opens the fake. It begins without faults, and broken devices are whole again.
func Open(t testing.TB) *Fake {
	t.Helper()
	f := &Fake{Path: Path(t)}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	handle, err := purego.Dlopen(f.Path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		t.Fatal(err)
	}
	purego.RegisterLibFunc(&f.control, handle, "fakecuda_control")
	f.Reset()
	t.Cleanup(f.Reset)
	return f
}

// Do obeys a command of README.md and returns its answer. It panics on one that is not there.
func (f *Fake) Do(command string) int64 {
	answer := f.control(command)
	if answer < 0 {
		panic("fakecuda: " + command + "?")
	}
	return answer
}

// Reset ends all faults.
func (f *Fake) Reset() {
	for _, command := range []string{"clear", "revive", "go"} {
		f.Do(command)
	}
}

// Fault arms one or more faults: "cuMemAlloc_v2@2=2,exec:copy@1=214!".
func (f *Fake) Fault(specs string) { f.Do("fault " + specs) }

// Unfired is how many faults nothing has met yet.
func (f *Fake) Unfired() int64 { return f.Do("unfired") }

// Live is how many objects were made and not given back.
func (f *Fake) Live() int64 { return f.Do("live") }

// Calls is how often a function of the library was called.
func (f *Fake) Calls(name string) int64 { return f.Do("calls " + name) }
