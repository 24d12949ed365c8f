// Package recorded simulates recordings: it makes the configuration of a simulation from the snapshot of a recording,
// and compares the result with what was recorded.
package recorded
