// Package tokenizer turns text into token ids and back, as a Hugging Face tokenizer.json says: byte-level BPE (GPT-2, Llama 3,
// Qwen2) and SentencePiece-style BPE (Llama 2, Mistral).
//
// Files are not trusted: whatever this package does not know is refused by name, never guessed, and a file can make
// neither loading nor encoding panic, loop without end or grow a text without bound.
//
// Encoding equals that of the reference, the Rust library tokenizers, but for letters newer than Go's Unicode tables.
// Decoding differs in two cases. An added token always stands for itself. And of tokens <0xNN> that are no UTF-8, only
// the broken bytes become U+FFFD: the reference gives up the whole run of them, which a stream cannot.
//
// Invariants, which the property tests check:
//   - a byte-level tokenizer gives back any text: Decode(Encode(text)) == text
//   - what a Stream returns, joined, is what Decode returns
//   - a Stopper returns the text before the first stop string to be complete, however the text is cut into pieces
package tokenizer
