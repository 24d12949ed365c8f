package kernels

// level is a variant of the inner loops. The vector variants sum in the same order, so that nodes
// with different processors of one architecture agree bit by bit. The plain variant has its own
// order.
type level int

const (
	plain  level = iota // any processor
	avx2                // eight lanes: AVX2 and FMA
	avx512              // sixteen lanes
)

// vectors is the best level of this build and processor. Only tests change it.
var vectors = best()
