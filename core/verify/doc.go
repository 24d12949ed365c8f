// Package verify decides whether weights that were copied to a device may serve: a canary, a fixed prompt
// without an adapter, must give the greedy tokens that it gave at the first load of the same files in the
// same layout on the same kind of device with the same version of the engine.
//
// # Loads
//
// A Load follows one load over its sources. The first row that fits an event applies; an event without a
// row is ignored.
//
//	event      load      guard             next      effects
//	loaded     loading                     checking  run a canary
//	computed   checking  nothing recorded  accepted  record the tokens; accept
//	           checking  as recorded       accepted  suspect what was rejected; accept
//	           checking  another source    loading   drop the copy; next source
//	           checking                    failed    drop the copy; test the device; fail
//	exhausted  loading   some rejected     failed    test the device; fail
//
// A source is suspected only if another one gave the recorded tokens on the same device. If none did, the
// device or the record may be wrong as well: the device is tested, and a later load tries all sources.
//
// # Records
//
// Records are the records that a node knows.
//
//	event       record            guard    next     effects
//	recorded    unknown                    local    store
//	            damaged                    local    replace
//	stored      unknown, damaged           stored   —
//	            local, stored     differs  stored   take the stored one; conflict
//	            local, stored              stored   —
//	unreadable  unknown, damaged           damaged  report
//	            local, stored              local    report; replace
//	deleted     stored, damaged            unknown  —
//	retry       local                      same     store
//
// A record that was computed but is not seen in the store yet is stored again.
//
// # Invariants
//
// Checked by name in TestLoadInvariants and TestRecordsInvariants:
//
//   - verified: a load is accepted only with the recorded tokens, or with the first ones
//   - dropped: rejected weights are dropped before anything else is loaded, and are never accepted
//   - ends: a load ends once, accepted or failed
//   - named: a failure has all rejections
//   - fair: a source is suspected only after another one was accepted, and only if it was rejected and its
//     content was not compared with the digest of the files
//   - first counts: a record that is known changes only to one that the store has
//   - not lost: a record is stored on each retry until the store has one
//   - replaced: a value in the store is replaced only after it was reported as unreadable
//   - ignored: an ignored event changes nothing
package verify
