// Package units parses and formats memory sizes, and computes sizes of KV memory.
package units
