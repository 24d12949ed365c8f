// Package adapter holds the actors that keep LoRA adapters on a replica's device: the pool, and a slot for each adapter that is there or on its
// way (protocol Adapters).
//
// # Pool
//
// Parent: the replica. Children: slot-0, slot-1, ….
// Accepts: AdoptPins, PinAdapter, UnpinAdapter, AdapterRequested, ForgetAdapter, SlotLoaded.
// Sends: AdaptersReady, PinAdapterResult, AdaptersChanged, to the replica.
//
// It owns a lora.Pool, which decides: who has which pages, who makes room, what is loaded ahead of need. A load is a slot's, an eviction
// is the end of a slot. Folders are inspected by jobs.
//
// What a crash loses are the pins and the loads under way; its slots end with it. What is in the pages, and in host memory, is the Store's, which sits
// above the replica: the successor finds it. The pins are the replica's too: the successor does nothing, and hears nothing, until AdoptPins has told
// which of them hold, so that nothing that a step reads is evicted. All others are asked for again. Popularity starts anew.
//
// # Slot
//
// Parent: the pool. Accepts nothing. Sends SlotLoaded.
//
// It owns the copy of one adapter into its pages: a job that reads it from disk into host memory, unless it is there, and copies that to the device, beside
// steps. A crash loses the copy; the successor begins it again, or finds that it was complete. Its end waits for the copy to end, so that
// the pages can be given to another. A file that can not be loaded is no crash: the pool refuses whoever waits for it.
// A life that is begun after that end, since a restart was under way, begins nothing, and neither does a pool whose own end or restart is under way.
package adapter
