// Package apikey knows who may use which models: the keys in a file.
//
//	keys:
//	  - name: alice                                    shown in logs; the key itself never is
//	    sha256: 1c0f…                                  of the key, in hexadecimal; or key: the key itself
//	    models: ["kjv-*", "kjv-*:*"]                   patterns as of path.Match; without the line, all models and adapters
//	    admin: true                                    may also load and unload adapters, and see /tree and /metrics
//	    tenant: acme                                   keys of one tenant share cached prefixes; default: the name; shared: with all clients
//	    max_priority: standard                         batch, standard or interactive; default: any
//	    weight: 2                                      share of a model among keys that wait for it; default 1
//	    limits:                                        of the whole cluster; a limit that is missing does not hold
//	      requests: 32                                 in flight
//	      tokens: 100000                               in flight: prompt tokens and max_tokens of every choice
//	      requests_per_minute: 600
//	      tokens_per_minute: 200000                    prompt and output
//
// An adapter is a model of its own here, "<model>:<adapter>", whichever of its names a request
// uses. A pattern is compared on each side of the colon, so that "*" never matches one: "kjv-*" are
// models, "kjv-*:*" are their adapters. An entry without "*", "?" and "[" also names the adapters
// that are called exactly so, of any model.
//
// Invariants: a key is compared in constant time; a changed file is in force with the next request; one that can not be read changes nothing.
package apikey
