// Package digest identifies the files of a model by their content.
//
// A file is divided into chunks of ChunkBytes. Each chunk has a BLAKE3 hash. The hash of a file covers
// its size and the hashes of its chunks. The hash of a list covers the names, sizes and hashes of its
// files:
//
//	weights  = tree("weights",  the safetensors files)
//	settings = tree("settings", config.json, the tokenizer, the template, …; see SettingsFiles)
//	revision = tree("revision", weights, settings)
//
// Chunks can be hashed in any order, and in parallel, while later ones are read. Each file also gets a
// cheap checksum (XXH3). A Cache keeps both under the metadata of the file, and a later reader compares
// only the checksum.
package digest
