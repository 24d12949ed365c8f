// Command schedstudy simulates the scheduler (core/schedule, core/planner), compares it with baselines and with what a
// schedule that knows all requests could reach at best, and writes docs/simulations/scheduler.md.
//
// Its studies are
//
//	capacity   the highest rate that replicas of each model serve within the SLO, by bisection
//	day        a day of four models on 16 devices, with the defaults of the scheduler and with baselines
//	sweep      the same with settings of the policy "threshold"
//	modes      the same with other limits, shared devices and batch within the day, and the bounds of package bound
//	multiples  the same with multiples of the demand, near the largest one that any schedule could carry
//	long       the day with its real length
//	slots      five models on three devices, and the least loads of package slots
//	zipf       twenty models on four devices, and those with the most requests alone on them
//
// Results are kept in a file, and only those that are missing are computed, so that an interrupted run goes on. With
// -renew, simulations are run again if the scenario or the code of the scheduler and the simulator has changed.
// Capacities and bounds are kept until the file is deleted. The bounds need HiGHS (package bound); without it
// they are left out.
package main
