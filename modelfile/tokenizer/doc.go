// Package tokenizer converts text to token ids and back, as described by a Hugging Face
// tokenizer.json. It supports byte-level BPE (GPT-2, Llama 3, Qwen2) and SentencePiece-style BPE
// (Llama 2, Mistral).
//
// Files are not trusted. Settings that this package does not know are rejected by name and never
// guessed. No file can make loading or encoding panic, loop forever or grow a text without bound.
//
// Encoding equals that of the reference, the Rust library tokenizers, except for letters newer than
// Go's Unicode tables. Decoding differs in two cases. An added token always yields its own text.
// And if tokens <0xNN> are not valid UTF-8, only the invalid bytes become U+FFFD. The reference
// replaces the whole run, which a stream cannot do.
//
// Invariants, checked by the property tests:
//   - A byte-level tokenizer reproduces any text: Decode(Encode(text)) == text.
//   - The pieces that a Stream returns, joined, equal the result of Decode.
//   - A Stopper returns the text before the first complete stop string, however the text is split.
package tokenizer
