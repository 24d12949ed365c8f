//go:build linux && !amd64

package driver

// runWideAddress is 0 if calls with that many arguments are not implemented: cuBLAS is not used.
const runWideAddress = 0
