package sample

// allFinite reports whether no logit is NaN or infinite. It runs over the whole vocabulary for each
// token. It therefore sums eight logits at a time and checks them one by one only if the sum is not
// finite.
func allFinite(x []float32) bool {
	for ; len(x) >= 8; x = x[8:] {
		y := (*[8]float32)(x)
		sum := y[0] + y[1] + (y[2] + y[3]) + (y[4] + y[5] + (y[6] + y[7]))
		if sum-sum != 0 && !eachFinite(y[:]) {
			return false
		}
	}
	return eachFinite(x)
}

func eachFinite(x []float32) bool {
	for _, v := range x {
		if v-v != 0 {
			return false
		}
	}
	return true
}
