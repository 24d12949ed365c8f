// Package tokenizer turns text into token ids and back, as a Hugging Face tokenizer.json says: byte-level BPE (GPT-2, Llama 3,
// Qwen2) and SentencePiece-style BPE (Llama 2, Mistral).
//
// Files are not trusted: whatever this package does not know is refused by name, never guessed.
package tokenizer
