package kernels

// Levels are the forms of the inner loops that this processor and this build have.
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

// Use makes kernels run in one form. No kernel may be running.
func Use(l level) (restore func()) {
	before := vectors
	vectors = l
	return func() { vectors = before }
}
