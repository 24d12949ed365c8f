package supervise

import (
	"fmt"
	"runtime"
)

// PanicText describes a panic value for logs. It returns the text of a runtime error, and only the
// type of any other value, which may contain data of a client.
func PanicText(p any) string {
	if err, ok := p.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("%T", p)
}
