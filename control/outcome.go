package control

import (
	"errors"
	"strings"

	"google.golang.org/protobuf/proto"

	"troupe/messages"
)

// changesStore holds the endpoints that change the store.
var changesStore = map[string]bool{
	"models-deploy": true, "models-scale": true, "models-delete": true,
	"models-standby": true, "models-activate": true, "models-park": true, "models-release": true, switchEndpoint: true,
	"adapters-register": true, "adapters-delete": true, "adapters-pin": true, "adapters-unpin": true,
	"replicas-preempt": true,
	"nodes-drain":      true, "nodes-undrain": true,
	"kv-pin": true, "kv-unpin": true,
	"planner-pause": true, "planner-resume": true,
}

// verifyHints tells the client how to find out whether a change was made. The key is the first part
// of the endpoint's name.
var verifyHints = map[string]string{
	"models":   "models.get shows the current deployment and its revision",
	"adapters": "adapters.get shows the current adapter and its revision",
	"replicas": "replicas.list shows the replicas and their sequences",
	"nodes":    "nodes.list shows which nodes are drained",
	"gpus":     "gpus.list shows the states of GPUs",
	"planner":  "planner.get shows whether the planner is paused",
	"kv":       "kv.stats shows the pins and the contents of the tiers",
	"node":     "kv.stats shows the contents of the tiers",
}

// isChange reports whether a request to an endpoint changes something.
func isChange(endpoint string, req proto.Message) bool {
	switch r := req.(type) {
	case *messages.KvNodeRequest:
		return r.GetStats() == nil
	case *messages.NodeRecordRequest:
		return r.GetBegin()
	}
	return !readOnly[endpoint]
}

// checkStore returns why the store cannot carry out a request to an endpoint now, or nil. It sends
// nothing.
func (c *control) checkStore(endpoint string) error {
	if !changesStore[endpoint] {
		return nil
	}
	if problem := c.Backend.StoreProblem(); problem != nil {
		return Refusal{problem}
	}
	return nil
}

// errorReply returns the reason and the text of an error reply. A change that was not confirmed in
// time may still be carried out; the text then says how to find out.
func errorReply(endpoint string, req proto.Message, err error) (messages.Reason, string) {
	reason := reasonOf(err)
	if !isChange(endpoint, req) {
		return reason, err.Error()
	}
	first, _, _ := strings.Cut(endpoint, "-")
	var reasoned interface{ GetReason() messages.Reason }
	switch known := errors.As(err, &reasoned); {
	case reason == messages.Reason_REASON_DEADLINE && !known:
		return messages.Reason_REASON_OUTCOME_UNKNOWN,
			"outcome unknown: " + err.Error() +
				"; the change may have been made or may still be made; " + verifyHints[first]
	case reason == messages.Reason_REASON_OUTCOME_UNKNOWN:
		return reason, err.Error() + "; " + verifyHints[first]
	}
	return reason, err.Error()
}
