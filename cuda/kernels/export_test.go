package kernels

// Levels returns the variants of the inner loops that this processor and build support.
func Levels() map[string]level {
	all := map[string]level{"plain": plain}
	if best() >= avx2 {
		all["avx2"] = avx2
	}
	if best() >= avx512 {
		all["avx512"] = avx512
	}
	return all
}

// Use makes kernels use one variant. No kernel may be running.
func Use(l level) (restore func()) {
	before := vectors
	vectors = l
	return func() { vectors = before }
}
