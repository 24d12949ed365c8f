package supervise

import (
	"fmt"
	"runtime"
)

// Panic describes what a request has panicked with, for logs: the text of a runtime error, and of
// all else the type alone, which may hold what a client sent.
func Panic(p any) string {
	if err, ok := p.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("%T", p)
}
