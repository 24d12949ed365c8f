// Package chat renders conversations with the chat template of a model: Jinja, as the Python library transformers runs it.
//
// A template comes with the model, and is trusted no more than that: it reads no files, its loops, its recursion and its
// output are bounded, and what goes wrong in it is an error. Only the memory that a single expression takes is not bounded.
//
// gonja renders it. What it does otherwise than Jinja, and templates rely on, is put right here: JSON and loops keep the
// order of an object's keys, and see prepare.
package chat
