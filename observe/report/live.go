package report

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"troupe/core/capacity"
	"troupe/messages"
)

// Observed is the time over which devices average the use of their time.
const Observed = 10 * time.Second

// onePeak is why a single report has no peaks.
const onePeak = "one moment has no peak; troupe report --for takes several"

// Live returns what a cluster holds and uses at the moment: its deployments, and its devices with the time
// that each replica uses.
func Live(models []*messages.DeploymentStatus, gpus []*messages.GpuStatus) capacity.Input {
	in := capacity.Input{Present: capacity.Known(float64(usable(gpus)))}
	for _, d := range sorted(models) {
		m := capacity.Model{
			Name: d.GetSpec().GetName(), Bytes: weightBytes(d.GetSpec().GetName(), gpus),
			MinDevices: capacity.Known(1), Peak: capacity.Unknown(onePeak), // a replica has one device
		}
		m.Devices, m.Average = deviceUse(d, gpus)
		in.Models = append(in.Models, m)
	}
	return in
}

func sorted(models []*messages.DeploymentStatus) []*messages.DeploymentStatus {
	return slices.SortedFunc(slices.Values(models), func(a, b *messages.DeploymentStatus) int {
		return cmp.Compare(a.GetSpec().GetName(), b.GetSpec().GetName())
	})
}

// usable returns the number of devices on which replicas can start.
func usable(gpus []*messages.GpuStatus) (n int) {
	for _, g := range gpus {
		if g.GetUnreachable() == "" && g.GetState() != messages.GpuState_GPU_STATE_QUARANTINED {
			n++
		}
	}
	return n
}

// software returns the number of devices that compute in host memory.
func software(gpus []*messages.GpuStatus) (n uint32) {
	for _, g := range gpus {
		if g.GetSimulated() {
			n++
		}
	}
	return n
}

// weightBytes returns the size of a model's weights on a device.
func weightBytes(model string, gpus []*messages.GpuStatus) capacity.Figure {
	for _, g := range gpus {
		for _, w := range g.GetWeights() {
			if w.GetModel() == model && !w.GetLoading() && w.GetBytes() > 0 {
				return capacity.Known(float64(w.GetBytes()))
			}
		}
	}
	return capacity.Unknown("no device has the weights")
}

// holdsDevice has the states in which a replica occupies its device. A replica on standby leaves it to others.
var holdsDevice = map[messages.ReplicaState]bool{
	messages.ReplicaState_REPLICA_STATE_LOADING:    true,
	messages.ReplicaState_REPLICA_STATE_SERVING:    true,
	messages.ReplicaState_REPLICA_STATE_DRAINING:   true,
	messages.ReplicaState_REPLICA_STATE_SUSPENDING: true,
}

// deviceUse returns the number of devices with replicas of a model, and the mean share of their time in which
// these ran steps.
func deviceUse(d *messages.DeploymentStatus, gpus []*messages.GpuStatus) (devices, average capacity.Figure) {
	on, used, unknown := make(map[string]bool), 0.0, ""
	for _, p := range d.GetReplicas() {
		if !holdsDevice[p.GetState()] || p.GetGpu() == "" {
			continue
		}
		on[p.GetNode()+"/"+p.GetGpu()] = true
		share, why := timeShare(p, gpus)
		if why != "" {
			unknown = cmp.Or(unknown, why)
		}
		used += share
	}
	devices = capacity.Known(float64(len(on)))
	switch {
	case unknown != "":
		return devices, capacity.Unknown(unknown)
	case len(on) == 0:
		return devices, capacity.Unknown("no replica")
	}
	return devices, capacity.Known(used / float64(len(on)))
}

// timeShare returns the share of its device's time in which a replica ran steps, or why it is unknown.
func timeShare(p *messages.ReplicaStatus, gpus []*messages.GpuStatus) (share float64, unknown string) {
	for _, g := range gpus {
		if g.GetNode() != p.GetNode() || g.GetName() != p.GetGpu() {
			continue
		}
		if g.GetUnreachable() != "" {
			return 0, fmt.Sprintf("node %s: %s", g.GetNode(), g.GetUnreachable())
		}
		for _, t := range g.GetTurns() {
			if t.GetReplica() == p.GetName() {
				return t.GetShare(), ""
			}
		}
	}
	return 0, fmt.Sprintf("%s/%s does not report the time of %s yet", p.GetNode(), p.GetGpu(), p.GetName())
}
