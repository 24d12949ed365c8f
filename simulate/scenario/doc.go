// Package scenario reads the files that "troupe simulate" runs: nodes with devices, models, deployments
// and a workload. Reading is strict: an unknown key and a value that cannot be are errors with the line,
// the key and a remedy. docs/howto/simulate.md describes the keys.
package scenario
