package router

import (
	"fmt"
	"testing"

	core "troupe/core/router"
	"troupe/messages"
)

// BenchmarkView measures a view of the cluster, without the demand, and what it takes to learn of its deployments
// one by one.
func BenchmarkView(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		r := &router{Config: Config{Node: "a", Sessions: func() int { return 0 }, Cache: new(DeploymentCache)},
			machine: core.New("a", nil), reports: newReports()}
		all := make([]*messages.ApplyDeployment, n)
		for i := range all {
			name := fmt.Sprintf("m%d", i)
			spec := &messages.DeploymentSpec{Name: name}
			all[i] = &messages.ApplyDeployment{Spec: spec, Revision: 1}
			r.reports.deployments[name] = &messages.DeploymentStatus{Spec: spec, Node: "a"}
			r.reports.keepReplica(core.KeepReplica{Model: name, Name: name + "-0"},
				&messages.ReplicaStatus{Name: name + "-0", Model: name})
			r.Cache.put(all[i])
		}
		b.Run(fmt.Sprintf("deployments=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r.clusterView()
			}
		})
		b.Run(fmt.Sprintf("deployments=%d/learn", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				cache := new(DeploymentCache)
				for _, d := range all {
					cache.put(d)
				}
			}
		})
	}
}
