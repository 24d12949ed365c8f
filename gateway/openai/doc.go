// Package openai is the OpenAI HTTP API as data: requests with everything checked, errors, and the JSON of answers.
//
// It knows no model and no connection: what depends on a model's context or vocabulary is checked where the model is known.
//
// Invariants:
//   - Decode gives a Request within the limits below, or an *Error that names the field. It never panics.
//   - Fields that it does not know are passed over, as OpenAI's servers do; those that it knows and can not honour are refused.
//   - Answers and chunks are valid JSON, whatever text they carry.
package openai
