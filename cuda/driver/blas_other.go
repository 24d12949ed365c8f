//go:build linux && !amd64

package driver

// runWideAddress is 0 where nothing calls functions of so many arguments: BLAS is not used.
const runWideAddress = 0
