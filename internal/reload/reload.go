// Package reload keeps a value that is made of files, and makes it again when one of them has changed.
//
// Invariants: Get never waits for a change and never fails; a change that can not be read is reported once, and the value before it stays.
package reload

import (
	"fmt"
	"os"
	"sync"
)

// Value is what was read of some files. It is safe for concurrent use.
type Value[T any] struct {
	read   func() (T, error)
	failed func(error)
	files  []string

	mu    sync.Mutex
	value T
	seen  []os.FileInfo
	told  []func(error)
}

// New reads the files for the first time. Later, an error of read goes to failed.
func New[T any](read func() (T, error), failed func(error), files ...string) (*Value[T], error) {
	v := &Value[T]{read: read, failed: failed, files: files}
	var err error
	if v.seen, err = v.look(); err != nil {
		return nil, err
	}
	v.value, err = read()
	return v, err
}

// Get looks at the files, which costs a system call for each, and returns the value that they make.
func (v *Value[T]) Get() T {
	v.mu.Lock()
	defer v.mu.Unlock()
	now, err := v.look()
	if err != nil || same(v.seen, now) {
		return v.value // a file that is not there is being replaced
	}
	v.seen = now // before it is read: what changes meanwhile is read again
	value, err := v.read()
	if err != nil {
		err = fmt.Errorf("%w; what was read before stays in use", err)
		v.failed(err)
		v.tell(err)
		return v.value
	}
	v.value = value
	v.tell(nil)
	return value
}

// OnChange registers a function that is called after a changed file was read, or with the reason why it was not. It must not block,
// and must not call Get.
func (v *Value[T]) OnChange(f func(error)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.told = append(v.told, f)
}

func (v *Value[T]) tell(err error) {
	for _, f := range v.told {
		f(err)
	}
}

func (v *Value[T]) look() ([]os.FileInfo, error) {
	all := make([]os.FileInfo, len(v.files))
	for i, name := range v.files {
		var err error
		if all[i], err = os.Stat(name); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func same(a, b []os.FileInfo) bool {
	for i := range a {
		if !os.SameFile(a[i], b[i]) || a[i].Size() != b[i].Size() || !a[i].ModTime().Equal(b[i].ModTime()) {
			return false
		}
	}
	return true
}
