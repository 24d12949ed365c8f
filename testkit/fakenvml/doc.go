// Package fakenvml is a fake of NVIDIA's management library: a real libnvidia-ml.so.1, built from C
// on demand, which go-nvml loads like the original.
//
// A text file beside the library describes its devices and is read at every call. A test changes
// the file while the program under test runs, so that a device heats up, counts memory errors, has
// an XID event or is lost. The fake encodes our reading of nvml.h; only a real GPU can confirm it.
//
// A process loads only one library (see cuda/telemetry), so tests of several libraries run in
// separate processes.
package fakenvml
