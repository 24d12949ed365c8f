// Package capacity computes how many devices models hold and use, what is wasted, and what that costs:
// with devices dedicated to each model (static), and with one pool that all models share.
//
// For a model, or a pool, with a number of devices, of which the share Average is busy over time:
//
//	used         = devices · Average
//	wasted       = devices · 24 · (1 − Average)    device-hours a day
//	cost         = devices · 24 · price            a day
//	wasted cost  = wasted · price                  a day
//
// Busy devices beyond the number of devices are not negative waste: wasted is at least 0.
//
// A static pool has the devices of all models. A shared pool has as many devices as all models use
// together at the most, and at least as many as one replica of each model needs. That number is
//
//   - known if the use was observed over time (Series);
//   - otherwise between two bounds: the peaks of all models coincide, so that it is the sum of the peaks;
//     or they are apart, so that it is the highest peak, or the sum of the averages if that is higher.
//
// It is a bound for a scheduler that moves devices between models at once, at no cost, and without headroom.
//
// A figure that was not measured is unknown, which is not zero, and says why. What is computed from it is
// unknown for the same reason.
//
// # Invariants
//
// Checked by name in TestInvariants:
//
//   - unknown: a figure that depends on an unknown one is unknown, with a reason
//   - balanced: used and wasted device-hours of a pool are its devices · 24
//   - bounded: a shared pool is not larger than the sum of the peaks, rounded up, unless one replica needs more
//   - apart: the pool with peaks apart is not larger than the one with peaks together
package capacity
