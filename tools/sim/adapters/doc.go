// Package adapters simulates many adapters on one base model: core/lora decides, as on a replica, and a timing model says how
// long steps and loads take. All its figures are simulated.
//
// A run is a loop over events in virtual time: a request comes, a load has ended, 100 ms are over, a step has ended. It is a
// function of trace and seed alone.
package adapters
