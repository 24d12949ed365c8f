package planner

import (
	"fmt"
	"testing"
	"time"

	core "troupe/core/planner"
	"troupe/core/schedule"
	"troupe/messages"
)

var sizes = []int{1000, 10_000}

// BenchmarkReport measures the report of a plan with so many deployments, of which each has a replica, and every
// second one lacks another.
func BenchmarkReport(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("deployments=%d", n), func(b *testing.B) {
			p, r := &planner{Config: Config{Node: "a"}}, recordOf(n)
			b.ReportAllocs()
			for b.Loop() {
				p.report(r)
			}
		})
	}
}

// BenchmarkObservation measures the conversion of a cluster with so many deployments, of which each has a replica,
// and of one with a deployment that has so many replicas.
func BenchmarkObservation(b *testing.B) {
	for _, n := range sizes {
		for _, perModel := range []int{1, n} {
			b.Run(fmt.Sprintf("deployments=%d/replicas=%d", n/perModel, n), func(b *testing.B) {
				stored, view := clusterOf(n/perModel, perModel)
				members := &messages.MembersChanged{}
				b.ReportAllocs()
				for b.Loop() {
					observationOf(stored, view, members, now)
				}
			})
		}
	}
}

// BenchmarkDevices measures the conversion of 1,000 devices whose weights and images are of so many deployments.
func BenchmarkDevices(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("deployments=%d", n), func(b *testing.B) {
			stored, _ := clusterOf(n, 1)
			nodes, gpus, images := surveyOf(1000, n)
			b.ReportAllocs()
			for b.Loop() {
				revs := revisionsOf(stored)
				for i, node := range nodes {
					devicesOn(node, gpus[i], images[i], revs)
				}
			}
		})
	}
}

// recordOf returns a plan for n models.
func recordOf(n int) *core.Record {
	r := &core.Record{Number: 1, At: now}
	for i := range n {
		name, device := fmt.Sprintf("m%d", i), fmt.Sprintf("a/gpu-%d", i%100)
		m := schedule.Model{Name: name, Min: 1, Max: 2, SLO: schedule.SLO{TTFT: time.Second}}
		r.Snapshot.Models = append(r.Snapshot.Models, m)
		r.Planned = append(r.Planned, core.Deployment{Model: m, Revision: 7})
		r.Snapshot.Replicas = append(r.Snapshot.Replicas, schedule.Placed{Name: name + "-0", Model: name,
			Devices: []string{device}, Progress: schedule.Up}, schedule.Placed{Name: name + "-1", Model: name,
			Devices: []string{device}, Progress: schedule.Up})
		r.Plan.Wants = append(r.Plan.Wants, schedule.Wanted{Model: name, Want: schedule.Want{Replicas: 2, Why: "w"}})
		r.Plan.Assignments = append(r.Plan.Assignments, schedule.Assignment{Replica: name + "-0", Model: name,
			Devices: []string{device}})
		r.Plan.Departures = append(r.Plan.Departures, schedule.Departure{Replica: name + "-1", Model: name, Why: "d"})
		if i%2 == 0 {
			r.Plan.Unmet = append(r.Plan.Unmet, schedule.Unmet{Model: name, Missing: 1, Why: "u"})
		}
	}
	return r
}

// clusterOf returns a cluster with so many deployments, and so many replicas of each.
func clusterOf(deployments, replicas int) (stored []*messages.ApplyDeployment, view *messages.ClusterView) {
	view = &messages.ClusterView{}
	for i := range deployments {
		spec := &messages.DeploymentSpec{Name: fmt.Sprintf("m%05d", i), RevisionDigest: fmt.Sprintf("digest-%d", i),
			Assignments: &messages.Assignments{}}
		status := &messages.DeploymentStatus{Spec: spec, Node: "a"}
		for k := range replicas {
			name := fmt.Sprintf("%s-%d", spec.GetName(), k)
			spec.Assignments.Replicas = append(spec.Assignments.Replicas, &messages.Assignment{Replica: name, Node: "a",
				Gpus: []string{"gpu-0"}})
			status.Assigned = append(status.Assigned, &messages.AssignmentStatus{Replica: name, Node: "a",
				Gpus: []string{"gpu-0"}})
			status.Replicas = append(status.Replicas, &messages.ReplicaStatus{Name: name, Running: 1})
		}
		stored = append(stored, &messages.ApplyDeployment{Spec: spec, Revision: 1})
		view.Deployments = append(view.Deployments, status)
	}
	return stored, view
}

// surveyOf returns the answers of devices on nodes with eight each, which have the weights of some models.
func surveyOf(devices, models int) (nodes []core.Node, gpus [][]*messages.GpuStatus,
	images []*messages.HostCacheStatus) {
	for i := range devices / 8 {
		node := core.Node{Name: fmt.Sprintf("n%d", i)}
		var of []*messages.GpuStatus
		cache := &messages.HostCacheStatus{}
		for k := range 8 {
			node.GPUs = append(node.GPUs, fmt.Sprintf("gpu-%d", k))
			g := &messages.GpuStatus{Uuid: fmt.Sprintf("u%d-%d", i, k), MemoryBytes: 1 << 36}
			for w := range 10 {
				id := (i*80 + k*10 + w) % models
				g.Weights = append(g.Weights, &messages.GpuWeights{Model: fmt.Sprintf("m%05d", id),
					RevisionDigest: fmt.Sprintf("digest-%d", id), Users: []string{"r"}, Bytes: 1 << 30})
				cache.Images = append(cache.Images, &messages.HostImage{Model: fmt.Sprintf("m%05d", id),
					RevisionDigest: fmt.Sprintf("digest-%d", id)})
			}
			of = append(of, g)
		}
		nodes, gpus, images = append(nodes, node), append(gpus, of), append(images, cache)
	}
	return nodes, gpus, images
}
