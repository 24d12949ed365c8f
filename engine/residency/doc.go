// Package residency keeps weights, adapters and KV memory on a device under leases. They outlive the actors that use
// them: a replica that restarts adopts what its lease holds.
package residency
