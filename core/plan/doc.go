// Package plan decides where things go: a replica on a GPU, a request to a replica. Every decision says why.
package plan
