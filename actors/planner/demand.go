package planner

import (
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/core/schedule"
	"troupe/messages"
)

// demandOf converts the demand of a deployment, and reports whether there are requests now. Unknown figures are
// negative, and not zero.
func demandOf(status *messages.DeploymentStatus, now time.Time) (d schedule.Demand, active bool) {
	d = schedule.Demand{Rate: -1, Recent: -1, TTFT: -1, TPOT: -1, KV: -1, Utilization: -1,
		Pending: int(status.GetWakes())}
	if age := status.GetOldestWaiting(); age != nil {
		d.Oldest = now.Add(-age.AsDuration())
	}
	if seen := status.GetDemand(); seen != nil {
		d.Rate, d.TTFT, d.TPOT = seen.GetArrivalsPerSecond(), p99(seen.GetTtft()), p99(seen.GetTpot())
		if seen.RecentPerSecond != nil {
			d.Recent = seen.GetRecentPerSecond()
		}
	}
	serving, places, blocks, free := 0, 0, 0, 0
	for _, r := range status.GetReplicas() {
		d.Running += int(r.GetRunning())
		d.Waiting += int(r.GetWaiting())
		if r.GetState() != messages.ReplicaState_REPLICA_STATE_SERVING {
			continue
		}
		serving++
		places += int(r.GetMaxSequences())
		blocks += int(r.GetKvBlocks())
		free += int(r.GetKvBlocksFree())
	}
	if serving > 0 {
		d.Places = places / serving
	}
	if blocks > 0 {
		d.KV = 1 - float64(free)/float64(blocks)
	}
	return d, d.Running+d.Waiting+d.Pending > 0 || d.Recent > 0
}

// mostSeconds is the longest possible time: a year.
const mostSeconds = 365 * 24 * 3600

// p99 returns the P99 of a time, or a negative one if it is not known or impossible.
func p99(q *messages.Quantiles) time.Duration {
	seconds := q.GetP99()
	if q.GetCount() == 0 || !(seconds >= 0 && seconds <= mostSeconds) {
		return -1
	}
	return time.Duration(seconds * float64(time.Second))
}

// loadsOf returns the longest times that replicas took to load, by the source of their weights.
func loadsOf(status *messages.DeploymentStatus) (all schedule.LoadTimes) {
	for _, r := range status.GetReplicas() {
		l := r.GetLoad()
		if l == nil {
			continue
		}
		took := sum(l.GetLoad(), l.GetStart())
		switch source := l.GetSource(); {
		case strings.HasPrefix(source, "disk"):
			all.Disk = max(all.Disk, took)
		case source == "host cache":
			all.Host = max(all.Host, took)
		default:
			all.Device = max(all.Device, took)
		}
	}
	return all
}

func sum(all ...*durationpb.Duration) (total time.Duration) {
	for _, d := range all {
		total += d.AsDuration()
	}
	return total
}
