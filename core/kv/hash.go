package kv

import (
	"crypto/sha256"
	"encoding/binary"
)

// Hash identifies the content of a full block: SHA-256 over the parent's hash and the block's
// tokens, truncated to 16 bytes.
type Hash [16]byte

// Root returns the parent hash of a sequence's first block. The adapter includes its revision, as
// in "name@7", so that an adapter registered again shares no blocks with its earlier revisions. An
// empty adapter is the base model alone. The salt, as returned by Salt, separates the blocks of
// tenants; blocks without a salt are shared by all.
func Root(model, adapter string, salt []byte) Hash {
	of := []byte(model + "\x00" + adapter)
	if len(salt) > 0 {
		of = append(append(of, 0), salt...)
	}
	return cut(sha256.Sum256(of))
}

// Next returns the hash of the block that holds tokens and follows block h.
func (h Hash) Next(tokens []uint32) Hash {
	buf := make([]byte, 0, len(h)+4*64)
	buf = append(buf, h[:]...)
	for _, t := range tokens {
		buf = binary.LittleEndian.AppendUint32(buf, t)
	}
	return cut(sha256.Sum256(buf))
}

// Namespaced returns the name of a block in a store that outlives what the hash leaves out. The
// namespace identifies the weights and the layout of the block's bytes.
func (h Hash) Namespaced(space Hash) Hash {
	return cut(sha256.Sum256(append(space[:len(space):len(space)], h[:]...)))
}

// Hashes returns the hashes of the full blocks of a sequence, in order.
func Hashes(root Hash, tokens []uint32, blockTokens int) []Hash {
	hashes := make([]Hash, 0, len(tokens)/blockTokens)
	for ; len(tokens) >= blockTokens; tokens = tokens[blockTokens:] {
		root = root.Next(tokens[:blockTokens])
		hashes = append(hashes, root)
	}
	return hashes
}

func cut(sum [sha256.Size]byte) Hash { return Hash(sum[:16]) }
