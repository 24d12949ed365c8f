// Package fakenvml is a fake of NVIDIA's management library: a real libnvidia-ml.so.1, built from C when a test asks for it, which
// go-nvml loads like the true one.
//
// What its devices are like is in a text file beside it, which it reads at every call: a test changes the file while the program under
// test runs, and a device gets hot, counts memory errors, has an XID event, or is lost. The fake encodes our reading of nvml.h; that
// real libraries do the same is for a real GPU to show.
//
// A process loads one library (see cuda/telemetry): tests of several libraries run in processes of their own.
package fakenvml
