// Package units holds sizes: how people write them, and the arithmetic of KV memory.
package units
