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
// Several workers hash chunks in parallel while the caller keeps reading the file. Each file also gets a
// cheap checksum (XXH3). A Cache keeps both under the metadata of the file, and a later reader compares
// only the checksum.
package digest
