// Package reload keeps a value that is read from files, and reads it again when a file has changed.
//
// Invariants: Get never waits for a change and never fails. An invalid change is reported once, and
// the previous value stays.
package reload

import (
	"fmt"
	"os"
	"sync"
)

// Value is a value read from files. It is safe for concurrent use.
type Value[T any] struct {
	read   func() (T, error)
	failed func(error)
	files  []string

	mu       sync.Mutex
	value    T
	stats    []os.FileInfo
	onChange []func(error)
}

// New reads the files for the first time. Later errors of read are passed to failed.
func New[T any](read func() (T, error), failed func(error), files ...string) (*Value[T], error) {
	v := &Value[T]{read: read, failed: failed, files: files}
	var err error
	if v.stats, err = v.stat(); err != nil {
		return nil, err
	}
	v.value, err = read()
	return v, err
}

// Get returns the value of the current files. It checks them with one system call per file.
func (v *Value[T]) Get() T {
	v.mu.Lock()
	defer v.mu.Unlock()
	now, err := v.stat()
	if err != nil || unchanged(v.stats, now) {
		return v.value // a missing file is being replaced
	}
	v.stats = now // set before reading, so that a change during the read is read again
	value, err := v.read()
	if err != nil {
		err = fmt.Errorf("%w; the previous value stays in use", err)
		v.failed(err)
		v.notify(err)
		return v.value
	}
	v.value = value
	v.notify(nil)
	return value
}

// OnChange registers a function that is called after a changed file was read, with an error if that
// failed. It must not block or call Get.
func (v *Value[T]) OnChange(f func(error)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.onChange = append(v.onChange, f)
}

func (v *Value[T]) notify(err error) {
	for _, f := range v.onChange {
		f(err)
	}
}

func (v *Value[T]) stat() ([]os.FileInfo, error) {
	all := make([]os.FileInfo, len(v.files))
	for i, name := range v.files {
		var err error
		if all[i], err = os.Stat(name); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func unchanged(a, b []os.FileInfo) bool {
	for i := range a {
		if !os.SameFile(a[i], b[i]) || a[i].Size() != b[i].Size() || !a[i].ModTime().Equal(b[i].ModTime()) {
			return false
		}
	}
	return true
}
