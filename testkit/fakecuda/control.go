//go:build linux

package fakecuda

import (
	"runtime"
	"testing"

	"github.com/ebitengine/purego"
)

// Fake is the fake library in this process. There is only one, whatever path it was built at.
type Fake struct {
	Path    string
	control func(command string) int64
}

// Open builds and opens the fake. It starts without faults, and with all devices working.
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

// Do runs a command of README.md and returns its result. It panics on an unknown command.
func (f *Fake) Do(command string) int64 {
	answer := f.control(command)
	if answer < 0 {
		panic("fakecuda: " + command + "?")
	}
	return answer
}

// Reset removes all faults.
func (f *Fake) Reset() {
	for _, command := range []string{"clear", "revive", "go"} {
		f.Do(command)
	}
}

// Fault arms one or more faults: "cuMemAlloc_v2@2=2,exec:copy@1=214!".
func (f *Fake) Fault(specs string) { f.Do("fault " + specs) }

// Unfired returns the number of faults that have not been triggered.
func (f *Fake) Unfired() int64 { return f.Do("unfired") }

// Live returns the number of objects that were created and not freed.
func (f *Fake) Live() int64 { return f.Do("live") }

// Calls returns the number of calls of a function of the library.
func (f *Fake) Calls(name string) int64 { return f.Do("calls " + name) }
