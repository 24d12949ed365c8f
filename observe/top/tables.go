package top

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"troupe/core/units"
	"troupe/messages"
)

// sections returns nodes, GPUs, replicas and deployments, in this order.
func sections(s Sample, r rates) []section {
	return []section{nodeSection(s, r), gpuSection(s), replicaSection(s, r), modelSection(s)}
}

var nodeColumns = []column{
	{name: "NODE"}, {name: "STATE"}, {name: "GPUS", numeric: true}, {name: "REPL", numeric: true},
	{name: "HOST", numeric: true},
	{name: "SESS", numeric: true},
	{name: "RUN", numeric: true}, {name: "WAIT", numeric: true}, {name: "IN/s", numeric: true},
	{name: "OUT/s", numeric: true}, {name: "NOTE"},
}

func nodeSection(s Sample, r rates) section {
	t := section{columns: nodeColumns}
	for _, n := range s.Nodes {
		name := n.GetMember().GetName()
		if n.GetUnreachable() != "" {
			blank := make([]cell, len(nodeColumns))
			blank[0], blank[1], blank[len(blank)-1] = word(name), word("unreachable"), word(n.GetUnreachable())
			if hasLeft(n) {
				blank[1] = enumName(n.GetMember().GetState().String(), "MEMBER_STATE_")
			}
			t.rows = append(t.rows, row{blank, critical})
			continue
		}
		state, m := enumName(n.GetMember().GetState().String(), "MEMBER_STATE_"), normal
		if n.GetDraining() {
			state = word("draining")
		}
		note := n.GetDetail()
		if d := n.GetDisk(); d.GetLow() || d.GetStopped() {
			state, note = word(map[bool]string{true: "disk full", false: "disk low"}[d.GetStopped()]), d.GetDetail()
		}
		if state.text != "up" {
			m = warning
		}
		t.rows = append(t.rows, row{[]cell{
			word(name), state, number(float64(len(n.GetGpus()))), number(float64(n.GetReplicas())),
			bytes(n.GetHostCache().GetUsedBytes()),
			number(float64(n.GetSessions())),
			number(float64(n.GetRunning())), number(float64(n.GetWaiting())),
			number(r.nodes[name].In), number(r.nodes[name].Out), word(note),
		}, m})
	}
	return t
}

var gpuColumns = []column{
	{name: "GPU"}, {name: "STATE"}, {name: "MEMORY", numeric: true, bar: true}, {name: "UTIL", numeric: true},
	{name: "HOLDS"}, {name: "WEIGHTS"}, {name: "PRODUCT"},
}

func gpuSection(s Sample) section {
	t := section{columns: gpuColumns}
	for _, n := range s.Nodes {
		for _, g := range n.GetGpus() {
			t.rows = append(t.rows, row{[]cell{
				word(qualifiedName(n.GetMember().GetName(), g.GetName())),
				enumName(g.GetState().String(), "GPU_STATE_"),
				memory(g), utilization(g), leaseOwners(g), weights(g), product(g),
			}, normal})
		}
	}
	return t
}

func memory(g *messages.GpuStatus) cell {
	used := g.GetMemoryBytes() - g.GetFreeBytes()
	part := float64(used) / float64(max(1, g.GetMemoryBytes()))
	return cell{
		text:   fmt.Sprintf("%s of %s", units.FormatBytes(int64(used)), units.FormatBytes(int64(g.GetMemoryBytes()))),
		number: part, share: part,
	}
}

// utilization returns the share of a device that its steps use, or an upper bound if only their time is known; empty:
// not known.
func utilization(g *messages.GpuStatus) cell {
	switch u := g.GetUtilization(); {
	case u == nil:
		return cell{}
	case u.Utilization == nil:
		c := percent(u.GetTimeShare())
		c.text = "≤" + c.text
		return c
	default:
		return percent(u.GetUtilization())
	}
}

func product(g *messages.GpuStatus) cell {
	if g.GetSimulated() && g.GetEngine() != "simulated" { // the product of a simulated device says so itself
		return word(g.GetProduct() + " (software)")
	}
	return word(g.GetProduct())
}

// leaseOwners lists the owners of a device's leases.
func leaseOwners(g *messages.GpuStatus) cell {
	var owners []string
	for _, l := range g.GetLeases() {
		if l.GetKind() != "weights" {
			owners = append(owners, l.GetOwner())
		}
	}
	slices.Sort(owners)
	return word(strings.Join(slices.Compact(owners), ", "))
}

// weights lists the weights on a device with their levels.
func weights(g *messages.GpuStatus) cell {
	var all []string
	for _, w := range g.GetWeights() {
		level := enumName(w.GetLevel().String(), "LEVEL_").text
		if w.GetLoading() {
			level = "loading"
		}
		all = append(all, w.GetModel()+" "+level)
	}
	return word(strings.Join(all, ", "))
}

var replicaColumns = []column{
	{name: "REPLICA"}, {name: "GPU"}, {name: "STATE"}, {name: "LIFE", numeric: true}, {name: "RUN", numeric: true},
	{name: "WAIT", numeric: true},
	{name: "KV", numeric: true}, {name: "HITS", numeric: true}, {name: "LORA", numeric: true},
	{name: "TIME", numeric: true},
	{name: "IN/s", numeric: true},
	{name: "OUT/s", numeric: true},
}

func replicaSection(s Sample, r rates) section {
	t, times := section{columns: replicaColumns}, timeShares(s)
	for _, d := range s.Models {
		for _, p := range d.GetReplicas() {
			state, m := enumName(p.GetState().String(), "REPLICA_STATE_"), warning
			switch p.GetState() {
			case messages.ReplicaState_REPLICA_STATE_SERVING:
				if m = normal; p.Squeezed() {
					m = warning
				}
			case messages.ReplicaState_REPLICA_STATE_STANDBY:
				m = normal
			case messages.ReplicaState_REPLICA_STATE_FAILED:
				m = critical
			}
			if f := p.GetFault(); f != nil {
				if state, m = word("faulty"), max(m, warning); f.GetFinal() {
					m = critical
				}
			}
			kv := float64(p.GetKvBlocks()-p.GetKvBlocksFree()) / float64(max(1, p.GetKvBlocks()))
			hits := float64(p.GetTokensCached()) / float64(max(1, p.GetTokensCached()+p.GetTokensIn()))
			t.rows = append(t.rows, row{[]cell{
				replicaName(p), word(qualifiedName(p.GetNode(), p.GetGpu())), state,
				number(float64(p.GetIncarnation())),
				number(float64(p.GetRunning())), number(float64(p.GetWaiting())), percent(kv), percent(hits),
				number(onGPU(p)), percent(times[p.GetNode()+"/"+p.GetName()]),
				number(r.replicas[p.GetName()].In), number(r.replicas[p.GetName()].Out),
			}, m})
		}
	}
	return t
}

// replicaName returns the name of a replica. One that computes nothing is marked.
func replicaName(p *messages.ReplicaStatus) cell {
	if kind := p.GetBackend().GetKind(); kind != "" && kind != "native" {
		return word(p.GetName() + " (" + kind + ")")
	}
	return word(p.GetName())
}

// timeShares returns the share of each replica in the time of its GPU, by node and replica.
func timeShares(s Sample) map[string]float64 {
	shares := make(map[string]float64)
	for _, n := range s.Nodes {
		for _, g := range n.GetGpus() {
			for _, t := range g.GetTurns() {
				shares[n.GetMember().GetName()+"/"+t.GetReplica()] = t.GetShare()
			}
		}
	}
	return shares
}

// onGPU returns the number of adapters that a replica has on its GPU.
func onGPU(r *messages.ReplicaStatus) (n float64) {
	for _, a := range r.GetAdapters() {
		if a.GetLocation() == messages.AdapterLocation_ADAPTER_LOCATION_GPU {
			n++
		}
	}
	return n
}

// reason returns why a deployment is not ready, which of its replicas are faulty or squeezed, and what holds it.
func reason(d *messages.DeploymentStatus) string {
	var faulty []string
	for _, r := range d.GetReplicas() {
		if f := r.GetFault(); f != nil {
			faulty = append(faulty, r.GetName()+": "+f.GetDetail())
		}
	}
	parts := []string{d.GetDetail(), first(faulty, "faulty"), first(d.GetSqueezed(), "squeezed"), held(d.GetSpec())}
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), "; ")
}

// held returns what holds a deployment: "held by models.scale by admin"; empty: nothing.
func held(s *messages.DeploymentSpec) string {
	if text := s.HeldByText(); text != "" {
		return "held by " + text
	}
	return ""
}

// first returns the number of replicas in a list and the first of them; empty if there are none.
func first(all []string, what string) string {
	switch len(all) {
	case 0:
		return ""
	case 1:
		return "1 " + what + ": " + all[0]
	}
	return fmt.Sprintf("%d %s: %s, …", len(all), what, all[0])
}

var modelColumns = []column{
	{name: "MODEL"}, {name: "STATE"}, {name: "REPLICAS", numeric: true}, {name: "WAIT", numeric: true},
	{name: "REQ/s", numeric: true}, {name: "TTFT P99", numeric: true}, {name: "TPOT P99", numeric: true},
	{name: "ON"}, {name: "REASON"},
}

// perSecond formats the arrivals of a model per second; empty: not known.
func perSecond(d *messages.Demand) cell {
	if d == nil {
		return cell{}
	}
	return cell{text: strconv.FormatFloat(d.GetArrivalsPerSecond(), 'f', 1, 64), number: d.GetArrivalsPerSecond()}
}

// p99 formats the P99 of a time; empty: not known.
func p99(q *messages.Quantiles) cell {
	if q == nil {
		return cell{}
	}
	unit := time.Millisecond
	if q.GetP99() < 0.01 {
		unit = 10 * time.Microsecond
	}
	return cell{
		text: time.Duration(q.GetP99() * float64(time.Second)).Round(unit).String(), number: q.GetP99(),
	}
}

func modelSection(s Sample) section {
	t := section{columns: modelColumns}
	for _, d := range s.Models {
		serving := 0
		for _, p := range d.GetReplicas() {
			if p.GetState() == messages.ReplicaState_REPLICA_STATE_SERVING {
				serving++
			}
		}
		m := warning
		switch d.GetState() {
		case messages.DeploymentState_DEPLOYMENT_STATE_READY, messages.DeploymentState_DEPLOYMENT_STATE_STOPPED,
			messages.DeploymentState_DEPLOYMENT_STATE_STANDBY, messages.DeploymentState_DEPLOYMENT_STATE_PARKED,
			messages.DeploymentState_DEPLOYMENT_STATE_ASLEEP, messages.DeploymentState_DEPLOYMENT_STATE_WAKING:
			m = normal
		case messages.DeploymentState_DEPLOYMENT_STATE_FAILED:
			m = critical
		}
		t.rows = append(t.rows, row{[]cell{
			word(d.GetSpec().GetName()), enumName(d.GetState().String(), "DEPLOYMENT_STATE_"),
			{text: fmt.Sprintf("%d of %d", serving, d.GetSpec().Wanted()), number: float64(serving)},
			number(float64(d.GetWaitingToWake())), perSecond(d.GetDemand()), p99(d.GetDemand().GetTtft()),
			p99(d.GetDemand().GetTpot()), word(d.GetNode()), word(reason(d)),
		}, m})
	}
	return t
}
