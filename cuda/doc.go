// Package cuda is the one view of a GPU that the rest of Troupe has: memory,
// streams, events, asynchronous copies and kernel launches.
//
// It knows neither models nor actors. Drivers are cuda/host, a software device
// whose memory is host memory and whose kernels are Go. Kernels and their argument
// structs are in cuda/kernels. cuda/cudatest is the suite every driver passes.
//
// Device memory belongs to the device, not to who asked for it: an actor that
// crashes loses nothing that is on a device.
package cuda
