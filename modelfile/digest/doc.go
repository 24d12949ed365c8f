// Package digest names the files of a model by their content.
//
// A file is cut into chunks of ChunkBytes. Each chunk has a BLAKE3 hash, the hash of a file is over its
// size and the hashes of its chunks, and the hash of a list is over the names, sizes and hashes of its
// files:
//
//	weights  = tree("weights",  the safetensors files)
//	settings = tree("settings", config.json, the tokenizer, the template, …; see SettingsFiles)
//	revision = tree("revision", weights, settings)
//
// Chunks are hashed by several workers at once, while whoever reads the file goes on. With the bytes comes
// a checksum (XXH3) that costs next to nothing: a Cache keeps both by what the file system shows of the
// file, and a later reader compares the checksum alone.
package digest
