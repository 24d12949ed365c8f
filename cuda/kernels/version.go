package kernels

import (
	"crypto/sha256"
	"fmt"
)

// Version identifies the arithmetic of the kernels: their code for GPUs, and the order in which the variant
// for this processor sums.
func Version() string {
	order := "vector"
	if vectors == plain {
		order = "plain"
	}
	code := sha256.Sum256(ptx)
	return fmt.Sprintf("kernels %x, %s", code[:6], order)
}
