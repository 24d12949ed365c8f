// Package residency keeps weights, adapters and KV memory on a device under leases. They survive
// the actors that use them: a restarted replica adopts the contents of its lease.
package residency
