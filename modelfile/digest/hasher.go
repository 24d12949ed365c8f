package digest

import (
	"encoding/binary"

	"github.com/zeebo/blake3"
	"github.com/zeebo/xxh3"
)

// ChunkBytes is the size of all chunks of a file except the last. Changing it changes every digest.
const ChunkBytes = 4 << 20

// Content identifies the bytes of a file.
type Content struct {
	Sum   Sum
	Check uint64 // XXH3 of the XXH3 of each chunk
}

// Chunk identifies the bytes of one chunk.
type Chunk struct {
	sum   Sum
	check uint64
}

// ChunkOf returns the content of a chunk. With quick, only the checksum is computed.
func ChunkOf(b []byte, quick bool) Chunk {
	c := Chunk{check: xxh3.Hash(b)}
	if !quick {
		c.sum = blake3.Sum256(b)
	}
	return c
}

// Join returns the content of a file from its chunks, in order; if they are quick ones, only the
// checksum is right.
func Join(size int64, chunks []Chunk) Content {
	checks := make([]byte, 0, 8*len(chunks))
	for _, c := range chunks {
		checks = binary.LittleEndian.AppendUint64(checks, c.check)
	}
	return Content{Sum: fileSum(size, chunks), Check: xxh3.Hash(checks)}
}

// Of returns the content of a file in memory.
func Of(b []byte) Content {
	var chunks []Chunk
	for rest := b; len(rest) > 0; {
		n := min(len(rest), ChunkBytes)
		chunks = append(chunks, ChunkOf(rest[:n], false))
		rest = rest[n:]
	}
	return Join(int64(len(b)), chunks)
}
