package planner

import (
	"time"

	core "troupe/core/planner"
	"troupe/messages"
)

func deploymentsOf(view *messages.ClusterView) []core.Deployment {
	all := make([]core.Deployment, len(view.GetDeployments()))
	for i, d := range view.GetDeployments() {
		all[i] = deploymentOf(d)
	}
	return all
}

// deploymentOf converts the status of a deployment, with the total load of its serving replicas.
func deploymentOf(status *messages.DeploymentStatus) core.Deployment {
	spec := status.GetSpec()
	d := core.Deployment{
		Name: spec.GetName(), Revision: status.GetRevision(), Replicas: int(spec.GetReplicas()),
		MinReplicas: int(spec.GetMinReplicas()), MaxReplicas: int(spec.GetMaxReplicas()), Held: spec.Held(),
		IdleAfter: time.Duration(spec.GetIdleAfter()) * time.Second,
		Ready:     status.GetState() == messages.DeploymentState_DEPLOYMENT_STATE_READY,
	}
	if len(spec.GetPreemptions()) > 0 { // held by hand
		d.MaxReplicas = d.MinReplicas
	}
	for _, r := range status.GetReplicas() {
		if r.GetState() != messages.ReplicaState_REPLICA_STATE_SERVING {
			continue
		}
		d.Load.Serving++
		d.Load.Running += int(r.GetRunning())
		d.Load.Waiting += int(r.GetWaiting())
		d.Load.Places += int(r.GetMaxSequences())
		d.Load.KVBlocks += int(r.GetKvBlocks())
		d.Load.KVFree += int(r.GetKvBlocksFree())
		d.Tokens += r.GetTokensIn() + r.GetTokensOut()
	}
	return d
}
