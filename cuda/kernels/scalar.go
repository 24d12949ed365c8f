package kernels

// dotScalar is the inner product in four interleaved sums.
//
//go:norace
func dotScalar(a, b []float32) float32 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float32
	for len(a) >= 4 {
		s0 += a[0] * b[0]
		s1 += a[1] * b[1]
		s2 += a[2] * b[2]
		s3 += a[3] * b[3]
		a, b = a[4:], b[4:]
	}
	return rest((s0+s2)+(s1+s3), a, b)
}

//go:norace
func dot8Scalar(sums *[weightRows]float32, x, w []float32) {
	for i := range sums {
		sums[i] = dotScalar(x, w[i*len(x):(i+1)*len(x)])
	}
}

// rest adds the products that fill no vector.
//
//go:norace
func rest(sum float32, a, b []float32) float32 {
	for i, x := range a {
		sum += x * b[i]
	}
	return sum
}

//go:norace
func axpyScalar(y []float32, a float32, x []float32) {
	for i, v := range x[:len(y)] {
		y[i] += a * v
	}
}
