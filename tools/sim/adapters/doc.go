// Package adapters simulates many adapters on one base model. core/lora makes the decisions, as on
// a replica, and a timing model determines how long steps and loads take. All its figures are
// simulated.
//
// A run processes events in virtual time: arrivals of requests, ends of loads, ticks of 100 ms, and
// ends of steps. It depends only on the trace and the seed.
package adapters
