// Package switching follows a device from one model to another: who must leave, how far the model
// that comes is, how long each phase took, and what must be brought back if it fails.
//
// A Machine takes events with the current time and returns Effects, which the caller carries out in
// order. It decides on no memory: core/device grants the load once those that leave have given back
// enough.
//
// # Phases
//
// A switch is in progress in the phases draining, freeing, loading and capturing. The first row that
// fits an event applies; an event without a row is ignored. The machine raises progress itself.
//
//	event      phase                       guard                next       effects
//	begin      serving                                          draining   note who leaves; progress
//	           in progress                 of the same request  same       —
//	           in progress                                      same       refuse
//	drained    in progress                 does not leave       same       ignore
//	           in progress                                      same       progress
//	freed      in progress                 does not leave       same       ignore
//	           in progress                                      same       progress
//	suspended  in progress                 does not leave       same       ignore
//	           in progress                                      same       note it
//	activated  in progress                 does not leave       same       ignore
//	           in progress                 not suspended        same       ignore
//	           in progress                                      serving    bring back; ended
//	overruled  in progress                 of another switch    same       ignore
//	           in progress                 takes no part        same       ignore
//	           in progress                                      serving    bring back; ended
//	loaded     in progress                 does not come        same       ignore
//	           in progress                                      same       keep the load; progress
//	serves     in progress                 does not come        same       ignore
//	           in progress                 not loaded           same       ignore
//	           in progress                                      same       keep the start; progress
//	progress   draining                    some still serve     same       —
//	           draining, freeing           some hold memory     freeing    —
//	           draining, freeing, loading  not loaded           loading    —
//	           in progress                 does not serve       capturing  —
//	           in progress                                      serving    ended
//	failed     in progress                 does not come        same       ignore
//	           in progress                                      serving    bring back; ended
//	deadline   in progress                 of another switch    same       ignore
//	           in progress                                      serving    bring back; ended
//
// A load may end before all memory is free. A phase lasts until what it waits for is done, so the
// phases after it may then take no time.
//
// A replica that leaves is suspended once its wanted level is standby. If it is activated after that, by
// an operator or by a request that wakes its model, the switch fails at once.
// It may also be activated before it has received the level standby, which it then never does. So the
// caller that stored the levels follows them while the switch is in progress, and reports that one of them
// was overruled.
// One on standby that finishes a stream of another replica stays suspended.
//
// # Invariants
//
// Checked by name in TestInvariants:
//
//   - one: a switch begins only while no other one is in progress
//   - once: every switch that began ends once
//   - forward: the phases of a switch follow one another in the order of the table
//   - complete: a switch succeeds only if all that leave have freed their memory, and the model
//     serves
//   - whole time: the durations of the phases add up to the duration of the switch
//   - own cost: a load and a capture are in the metrics only if they ended after the switch began
//   - activated: a switch fails as soon as a replica that leaves was suspended and is activated, or a
//     stored level of one of its replicas is overruled
//   - brought back: a switch that fails names all that had to leave, and no others
//   - ignored: an ignored event changes nothing
package switching
