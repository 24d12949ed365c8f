package control

import (
	"errors"
	"strings"

	"google.golang.org/protobuf/proto"

	"troupe/messages"
)

// stored are the endpoints that change what the store holds.
var changesStore = map[string]bool{
	"models-deploy": true, "models-scale": true, "models-delete": true,
	"adapters-register": true, "adapters-delete": true, "adapters-pin": true, "adapters-unpin": true,
	"nodes-drain": true, "nodes-undrain": true,
	"kv-pin": true, "kv-unpin": true,
}

// verifyHints names the endpoint that shows what became of a change, by the first part of the changing endpoint's name.
var verifyHints = map[string]string{
	"models":   "models.get shows the deployment in force, and its revision",
	"adapters": "adapters.get shows the adapter in force, and its revision",
	"replicas": "replicas.list shows where replicas and their sequences are",
	"nodes":    "nodes.list shows which nodes are drained",
	"gpus":     "gpus.list shows the states of GPUs",
	"kv":       "kv.stats shows pins, and what the tiers hold",
	"node":     "kv.stats shows what the tiers hold",
}

// isChange reports whether a request to an endpoint isChange something.
func isChange(endpoint string, req proto.Message) bool {
	kv, ok := req.(*messages.KvNodeRequest)
	return !readOnly[endpoint] && !(ok && kv.GetStats() != nil)
}

// checkStore returns why a request to an endpoint cannot be carried out, before anything is sent.
func (c *control) checkStore(endpoint string) error {
	if !changesStore[endpoint] {
		return nil
	}
	if problem := c.Backend.StoreProblem(); problem != nil {
		return Refusal{problem}
	}
	return nil
}

// errorReply returns the reason and the text of an answer that is an error. A change that was not confirmed in time may be
// carried out later, and the text says how to find out.
func errorReply(endpoint string, req proto.Message, err error) (messages.Reason, string) {
	reason := reasonOf(err)
	if !isChange(endpoint, req) {
		return reason, err.Error()
	}
	first, _, _ := strings.Cut(endpoint, "-")
	var told interface{ GetReason() messages.Reason }
	switch known := errors.As(err, &told); {
	case reason == messages.Reason_REASON_DEADLINE && !known:
		return messages.Reason_REASON_OUTCOME_UNKNOWN,
			"outcome unknown: " + err.Error() + "; the change may have been made, or be made later; " + verifyHints[first]
	case reason == messages.Reason_REASON_OUTCOME_UNKNOWN:
		return reason, err.Error() + "; " + verifyHints[first]
	}
	return reason, err.Error()
}
