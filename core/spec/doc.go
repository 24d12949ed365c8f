// Package spec holds sizes: how people write them, and the arithmetic of KV memory.
package spec
