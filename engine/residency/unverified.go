package residency

import (
	"fmt"
	"strings"

	"troupe/core/verify"
)

// Unverified is the error of a load whose weights gave other tokens than those recorded at the first load,
// from each source.
type Unverified struct {
	Path       string // folder of the model
	Device     string // "node-a/gpu-0"
	Key        verify.Key
	Rejections []verify.Rejection
	Err        error // of the sources that could not be loaded from; nil: there were none
}

// Remedy says what an operator can do.
func (e *Unverified) Remedy() string {
	return fmt.Sprintf("%s is tested now, see gpus.list; if it passes, compare the folder with its origin; if that is "+
		"as it should be, the record is wrong: delete the key %s of the KV bucket troupe", e.Device, e.Key.Name())
}

func (e *Unverified) Error() string {
	var all []string
	for _, r := range e.Rejections {
		all = append(all, r.Source.Name+": "+r.Why())
	}
	text := fmt.Sprintf("%s on %s: the weights do not compute what they computed at the first load (%s): %s",
		e.Path, e.Device, e.Rejections[0].Recorded.By, strings.Join(all, "; "))
	if e.Err != nil {
		text += "; " + e.Err.Error()
	}
	return text + "; " + e.Remedy()
}

func (e *Unverified) Unwrap() error { return e.Err }
