package llama

import (
	"fmt"

	"troupe/cuda/kernels"
	"troupe/engine"
)

// arithmetic is the version of the forward pass, and of the kernels for processors. Raise it with each
// change after which the same weights may give other tokens.
const arithmetic = 1

var _ engine.Versioned = Loader{}

// Version implements engine.Versioned.
func (f Loader) Version() string { return fmt.Sprintf("llama %d, %s", arithmetic, kernels.Version()) }
