// Package adapter provides the actors that keep LoRA adapters on a replica's device: the pool, and
// a slot for each adapter that is loaded or being loaded (protocol Adapters).
//
// # Pool
//
// Parent: the replica. Children: slot-0, slot-1, …. Accepts: AdoptPins, PinAdapter, UnpinAdapter,
// AdapterRequested, ForgetAdapter, SlotLoaded. Sends: AdaptersReady, PinAdapterResult,
// AdaptersChanged, to the replica.
//
// Its machine is a lora.Pool, which decides which adapter gets which pages, which one is evicted, and
// what is prefetched. A slot performs a load, and the end of a slot is an eviction. Jobs inspect the
// folders.
//
// A crash loses the pins and the loads in flight, and ends the slots. The content of the pages and
// of host memory belongs to the Store, which survives: the successor recovers it. The replica also
// knows the pins. The successor ignores all commands until AdoptPins lists the pins in effect, so
// that it evicts nothing that a step reads. All other pins are requested again. Popularity starts
// at zero.
//
// # Slot
//
// Parent: the pool. Accepts nothing. Sends SlotLoaded.
//
// It owns the copy of one adapter into its pages. A job reads the adapter from disk into host
// memory, unless it is there, and copies it to the device while steps run. A crash loses the copy;
// the successor starts it again, or finds that it was complete. The slot ends only after its copy
// has ended, so that the pages can be reused. A file that cannot be loaded does not crash the
// slot: the pool refuses the requests that wait for it. If a restart was in progress when the slot
// ended, the new incarnation starts no copy. Neither does a pool that is stopping or restarting.
package adapter
