//go:build !goexperiment.simd || !amd64

package kernels

func best() level { return plain }

func dot(a, b []float32) float32           { return dotPlain(a, b) }
func weigh(y, p, v []float32, stride int)  { weighPlain(y, p, v, stride) }
func scale(y, x, w []float32, s float32)   { scalePlain(y, x, w, s) }
func siluMul(out, gate, up []float32)      { siluMulPlain(out, gate, up) }
func softmax(x []float32) float32          { return softmaxPlain(x) }
func widenF16(out []float32, in []uint16)  { widenF16Plain(out, in) }
func widenBF16(out []float32, in []uint16) { widenBF16Plain(out, in) }
func multiply(out, x, w matrix, add bool)  { multiplyPlain(&out, &x, &w, add) }
