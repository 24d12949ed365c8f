package control

import (
	"cmp"
	"fmt"
	"slices"

	"troupe/messages"
)

// MigrationPair finds the source and target replica of a migration. If to is empty, the target is
// the least loaded other serving replica of the model.
func MigrationPair(
	all []*messages.DeploymentStatus,
	from, to string,
) (source, target *messages.ReplicaStatus, err error) {
	var peers []*messages.ReplicaStatus
	for _, d := range all {
		i := slices.IndexFunc(d.GetReplicas(), func(r *messages.ReplicaStatus) bool { return r.GetName() == from })
		if i >= 0 {
			source = d.GetReplicas()[i]
			peers = slices.DeleteFunc(slices.Clone(d.GetReplicas()), func(r *messages.ReplicaStatus) bool {
				return r == source || r.GetState() != messages.ReplicaState_REPLICA_STATE_SERVING ||
					to != "" && r.GetName() != to
			})
		}
	}
	switch {
	case source == nil:
		return nil, nil, Refuse(
			messages.Reason_REASON_NOT_FOUND,
			fmt.Sprintf("no replica %s; see replicas.list", from),
		)
	case len(peers) == 0 && to != "":
		return nil, nil, Refuse(
			messages.Reason_REASON_NOT_FOUND,
			fmt.Sprintf("no serving replica %s of model %s; see replicas.list", to, source.GetModel()),
		)
	case len(peers) == 0:
		return nil, nil, Refuse(
			messages.Reason_REASON_NOT_READY,
			fmt.Sprintf("model %s has no other serving replica; scale it up first", source.GetModel()),
		)
	}
	return source, slices.MinFunc(peers, func(a, b *messages.ReplicaStatus) int {
		return cmp.Or(
			cmp.Compare(a.GetRunning()+a.GetWaiting(), b.GetRunning()+b.GetWaiting()),
			cmp.Compare(a.GetName(), b.GetName()),
		)
	}), nil
}
