// Package cuda is the interface to GPUs for the rest of Troupe: memory, streams, events,
// asynchronous copies and kernel launches.
//
// It knows neither models nor actors. cuda/driver drives NVIDIA GPUs. cuda/host is a software
// device with host memory and kernels in Go. cuda/kernels holds the kernels and their argument
// structs, and cuda/cudatest the conformance suite for drivers.
//
// Device memory belongs to the device and not to the component that allocated it: a crash of an
// actor does not free it.
package cuda
