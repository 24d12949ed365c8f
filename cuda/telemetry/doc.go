// Package telemetry reports facts about GPUs and their health. It reads them from NVIDIA's
// management library (libnvidia-ml.so.1, NVML) if available, and otherwise from the device itself.
//
// NVML is called through cgo. In a build without cgo all facts come from the device, and OpenNVML
// returns an error. Calling a function that the library lacks would end the process, which recover
// cannot prevent. So every function is looked up before it is called, and values that an old driver
// does not provide are omitted.
//
// A process opens one library once and keeps it: calls are bound to the first library with the
// symbol, and a second library, or the same one loaded again, would be called at addresses of the
// first.
//
// Health may block for milliseconds, and for seconds if a device is failing. Do not call it from an
// actor's mailbox.
package telemetry
