// Package apikey reads the API keys in a file and decides which models they may use.
//
//	keys:
//	  - name: alice                    shown in logs, unlike the key itself
//	    sha256: 1c0f…                  hash of the key in hexadecimal; or key: the key itself
//	    models: ["kjv-*", "kjv-*:*"]   patterns as in path.Match; default: all models and adapters
//	    admin: true                    may also load and unload adapters, and read /tree and /metrics
//	    tenant: acme                   keys of one tenant share cached prefixes; default: the name;
//	                                   shared: with all clients that have no tenant
//	    max_priority: standard         batch, standard or interactive; default: any
//	    weight: 2                      share of a replica among waiting keys; default 1
//	    limits:                        for the whole cluster; default: no limits
//	      requests: 32                 in flight
//	      tokens: 100000               in flight: prompt tokens plus max_tokens of every choice
//	      requests_per_minute: 600
//	      tokens_per_minute: 200000    prompt and output
//
// An adapter is treated as a model "<model>:<adapter>", whether a request uses its short or its
// full name. The two sides of the colon are matched separately, so "*" never matches a colon:
// "kjv-*" allows models, "kjv-*:*" their adapters. An entry without "*", "?" and "[" also allows
// the adapters of that exact name, of any model.
//
// Invariants:
//   - keys are compared in constant time
//   - a changed file applies to the next request
//   - an invalid file changes nothing
package apikey
