//go:build !amd64

package host

func transfer(to, from []byte) { copy(to, from) }
