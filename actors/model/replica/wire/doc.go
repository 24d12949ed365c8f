// Package wire converts between the messages of a replica and the types of core/replica,
// core/batch, and core/lora. It decides nothing.
package wire
