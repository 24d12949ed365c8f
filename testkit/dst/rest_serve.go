package dst

import (
	"fmt"
	"time"

	"troupe/messages"
)

// serveWithin is the virtual time within which a cluster at rest serves a short request.
const serveWithin = 20 * time.Second

// checkServes checks that a cluster that has come to rest serves: each node forwards a request for each model that
// has active replicas, and gets the output of a run without faults. The cluster must come to rest again.
func (c *cluster) checkServes() {
	if len(c.result.Failures) > 0 || c.world.livelock != nil {
		return
	}
	c.checks.turned() // the requests are a load of their own
	var asked []*Call
	for _, m := range c.models {
		if c.operator.replicas(m.name) == 0 || c.operator.level(m.name, "") != messages.Level_LEVEL_ACTIVE ||
			!c.serves(m.name) {
			continue
		}
		for i, name := range c.names {
			call := NewCall(fmt.Sprintf("last-%s-%s", m.name, name), m.name, systemPrompt(i%systemPrompts), 3)
			call.node = name
			asked = append(asked, call)
			c.open(call)
		}
	}
	c.calls = append(c.calls, asked...)
	c.world.Run(serveWithin, c.allEnded)
	c.checks.countTurns()
	for _, call := range asked {
		refused, wrong := call.Result()
		switch {
		case call.turnedAway:
			c.fail("%s: %s is not ready", call.ID, call.node)
		case refused != nil:
			c.fail("%s was refused at rest: %s", call.ID, refused.GetDetail())
		case !call.Ended():
			c.fail("%s has not ended after %v at rest: %d of %d tokens", call.ID, serveWithin, len(call.Output()),
				len(call.want))
		}
		for _, w := range wrong {
			c.fail("%s: %s", call.ID, w)
		}
	}
	c.checkRest()
}

// serves reports whether a model has a replica that serves.
func (c *cluster) serves(model string) bool {
	for _, r := range c.replicas(model) {
		s, ok := ask[*messages.ReplicaStatus](c, r.node, r.pid, &messages.GetReplica{})
		if ok && s.GetState() == messages.ReplicaState_REPLICA_STATE_SERVING {
			return true
		}
	}
	return false
}
