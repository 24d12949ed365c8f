package tree

import "troupe/messages"

// AddFaults adds the faults of replicas, by their names, to their actors.
func AddFaults(n *messages.ActorNode, byReplica map[string]*messages.ReplicaFault) {
	if n.GetKind() == "replica" {
		n.Fault = byReplica[n.GetName()].GetDetail()
	}
	for _, c := range n.GetChildren() {
		AddFaults(c, byReplica)
	}
}

// stateOf returns the state of an actor; faulty if it runs and is a faulty replica.
func stateOf(n *messages.ActorNode) string {
	if n.GetFault() != "" && n.GetState() == messages.ActorState_ACTOR_STATE_RUNNING {
		return "faulty"
	}
	return stateName(n.GetState())
}
