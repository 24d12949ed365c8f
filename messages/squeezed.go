package messages

import "fmt"

// Squeezed reports whether the replica serves with fewer KV blocks than it would have alone on its
// device.
func (s *ReplicaStatus) Squeezed() bool {
	return s.GetState() == ReplicaState_REPLICA_STATE_SERVING && s.GetKvBlocks() < s.GetKvBlocksAlone()
}

// Squeezed describes the squeezed replicas: "kjv-0: 512 of 4096 KV blocks".
func Squeezed(replicas []*ReplicaStatus) (all []string) {
	for _, r := range replicas {
		if r.Squeezed() {
			all = append(all, fmt.Sprintf("%s: %d of %d KV blocks", r.GetName(), r.GetKvBlocks(), r.GetKvBlocksAlone()))
		}
	}
	return all
}
