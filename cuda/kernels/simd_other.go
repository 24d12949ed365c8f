//go:build !goexperiment.simd || !amd64

package kernels

// hasVectors: this build has no vector forms.
const hasVectors = false

func dot(a, b []float32) float32                     { return dotScalar(a, b) }
func dot8(sums *[weightRows]float32, x, w []float32) { dot8Scalar(sums, x, w) }
func axpy(y []float32, a float32, x []float32)       { axpyScalar(y, a, x) }
