// Package telemetry tells facts about GPUs and how they are: from NVIDIA's management library (libnvidia-ml.so.1, NVML) where it
// is there, and from the device itself otherwise.
//
// NVML is reached through cgo; a build without cgo has every device's facts from the device, and OpenNVML says so. A library
// without a function that is called ends the process, which no recover can prevent. So every function is looked up before it is
// called, and what an old driver does not know is simply not told.
//
// A process opens one library, once, and keeps it: the calls are bound to the first library that has the symbol, and a second
// one, or the same one loaded again, would be called at addresses of the first.
//
// Health may block for milliseconds, and for seconds where a device is about to be lost. Ask for it off the mailbox.
package telemetry
