package kernels

// level says which forms of the inner loops run. The vector forms all sum in the same order, so that nodes with different
// processors of one kind agree bit by bit; the plain form has an order of its own.
type level int

const (
	plain  level = iota // any processor
	avx2                // eight lanes: AVX2 and FMA
	avx512              // sixteen lanes
)

// vectors is the best that this build and this processor have. Only tests change it.
var vectors = best()
