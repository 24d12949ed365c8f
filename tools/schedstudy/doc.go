// Command schedstudy simulates the scheduler (core/schedule, core/planner), compares it with baselines and with what a
// schedule that knows all requests could reach at best, and writes docs/simulations/scheduler.md.
//
// Its studies are
//
//	capacity   the highest rate that replicas of each model serve within the SLO, by bisection
//	day        a day of four models on 16 devices, and the bounds of package bound
//	sweep      the same with settings of the policy "threshold"
//	multiples  the same with multiples of the demand, near the largest one that any schedule could carry
//	slots      five models on three devices, and the least loads of package slots
//	zipf       twenty models on four devices, and those with the most requests alone on them
//
// Results are kept in a file, and only those that are missing are computed, so that an interrupted run goes on. After a
// change of the scheduler, delete the file. The bounds need HiGHS (package bound); without it they are left out.
package main
