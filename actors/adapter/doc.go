// Package adapter provides the actors that keep LoRA adapters on a replica's device: the pool, and
// a slot for each adapter that is loaded or being loaded (protocol Adapters).
//
// # Pool
//
// Parent: the replica. Children: slot-0, slot-1, …. Accepts: AdoptPins, PinAdapter, UnpinAdapter,
// AdapterRequested, ForgetAdapter, SlotLoaded. Sends: AdaptersReady, PinAdapterResult,
// AdaptersChanged, to the replica.
//
// Its machine is a lora.Pool, which decides which adapter gets which pages and which adapters are
// evicted or prefetched. A slot performs a load; stopping the slot evicts its adapter. Jobs inspect
// the folders of adapters.
//
// A crash loses the pins and the loads in flight, and ends the slots. The content of the pages and
// of host memory belongs to the Store, which survives the crash, and the successor recovers it. The
// replica also knows the pins. The successor ignores all commands until AdoptPins lists the pins in
// effect, so that it evicts no adapter that a step reads. The replica requests all other pins
// again. Popularity starts at zero.
//
// # Slot
//
// Parent: the pool. Accepts nothing. Sends SlotLoaded.
//
// A slot owns the copy of one adapter into its pages. A job reads the adapter from disk into host
// memory, unless the adapter is already there, and copies it to the device while steps run. A crash
// loses the copy; the successor starts it again, or finds that it was complete. The slot stops only
// after its copy has ended, so that the pages can be reused. A file that cannot be loaded does not
// crash the slot: the pool refuses the requests that wait for the adapter. If the device is lost,
// the pool crashes for good, and its replica with it. If the slot is stopped during a restart, the
// new incarnation starts no copy. A pool that is stopping or restarting starts no slots.
package adapter
