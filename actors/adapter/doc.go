// Package adapter provides the actors that keep LoRA adapters on a replica's device: the pool, and
// a slot for each adapter that is loaded or being loaded (protocol Adapters).
//
// # Pool
//
// Parent: the replica. Children: slot-0, slot-1, …. Accepts: AdoptPins, PinAdapter, UnpinAdapter,
// AdapterRequested, PrefetchAdapters, ForgetAdapter, SlotLoaded, ShrinkAdapters, GrowAdapters. Sends:
// AdaptersReady, PinAdapterResult, AdaptersChanged, to the replica; AdapterReport, AdaptersShrunk, to the gpu
// actor.
//
// Its machine is a lora.Pool, which decides which adapter gets which pages and which adapters are
// evicted or prefetched. A slot performs a load; stopping the slot evicts its adapter. Jobs inspect
// the folders of adapters.
//
// Copies in host memory are those of the node's host cache (actors/hostcache), which all replicas of the
// node share. The pool asks the Store every 100 ms whether they have changed, and reports where adapters
// are.
//
// The number of pages changes while the pool serves. Before it evicts an adapter, it requests pages from
// the gpu actor (AdapterReport). If others need memory, the gpu actor asks for pages (ShrinkAdapters): the
// pool gives back free ones and those of idle adapters to the Store, which alone knows which pages it may
// free, whatever crashes.
//
// A crash loses the pins and the loads in flight, and ends the slots. The content of the pages
// belongs to the Store, which survives the crash, and the successor recovers it. The
// replica also knows the pins. The successor ignores all commands until AdoptPins lists the pins in
// effect, so that it evicts no adapter that a step reads. The replica requests all other pins
// again. Popularity starts at zero.
//
// # Slot
//
// Parent: the pool. Accepts UseImageResult from the host cache. Sends SlotLoaded to the pool, UseImage and
// EndImageUse to the host cache.
//
// A slot owns the copy of one adapter into its pages. It asks the host cache for a ticket. With it, a
// job copies the image of the adapter to the device while steps run, or reads the adapter's files into a new image
// and copies that. If another load fills the image, the host cache answers when that has ended, and the
// slot asks again every second, 5 times at most. A slot that gets no ticket, or no answer within a
// second, reads the files and leaves no image. A crash
// loses the copy; the successor starts it again, or finds that it was complete. The slot stops only
// after its copy has ended, so that the pages can be reused. A file that cannot be loaded does not
// crash the slot: the pool refuses the requests that wait for the adapter. If the device is lost,
// the pool crashes for good, and its replica with it. If the slot is stopped during a restart, the
// new incarnation starts no copy. A pool that is stopping or restarting starts no slots.
package adapter
