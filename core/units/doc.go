// Package units parses and formats memory sizes, and computes the sizes of weights and KV memory.
package units
