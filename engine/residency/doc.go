// Package residency keeps weights, adapters and KV memory on a device. They survive the actors that
// use them: a restarted replica adopts the contents of its lease.
//
// A copy holds the weights of a model. A lease holds the KV memory and the adapters of one replica,
// and refers to a copy, which it may share with others. A lease is opened with its handle, a secret
// that only its replica has. core/residency decides which copies there are, and core/device which
// leases.
//
// Loaded weights are verified by a canary before they become a copy. core/verify decides, and Canaries has
// its records.
package residency
