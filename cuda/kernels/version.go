package kernels

import (
	"crypto/sha256"
	"fmt"
	"sync"
)

// code is the start of the hash of the code for GPUs. It is computed once, since each load of a model asks for it.
var code = sync.OnceValue(func() [6]byte {
	sum := sha256.Sum256(ptx)
	return [6]byte(sum[:6])
})

// Version identifies the arithmetic of the kernels: their code for GPUs, and the order in which the variant
// for this processor sums.
func Version() string {
	order := "vector"
	if vectors == plain {
		order = "plain"
	}
	return fmt.Sprintf("kernels %x, %s", code(), order)
}
