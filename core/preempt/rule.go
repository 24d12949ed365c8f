package preempt

import "fmt"

// Candidate is a replica that is to be preempted, and its deployment.
type Candidate struct {
	Replica  string
	Model    string
	Critical bool // the deployment is critical
	Stopping bool // the replica drains, stops, or is being preempted
	// Wanted is the number of replicas that the deployment wants without those that are preempted.
	Wanted                   int
	MinReplicas, MaxReplicas int
	Force                    bool
}

// Reason is the reason for a refusal.
type Reason uint8

// Reasons.
const (
	Allowed Reason = iota
	NotAllowed
	AlreadyStopping
	BelowMinimum
)

func (r Reason) String() string {
	return [...]string{"allowed", "not allowed", "already stopping", "below minimum"}[r]
}

// Refusal is the reason why a replica is not preempted, and what an operator can do.
type Refusal struct {
	Reason Reason
	Detail string
}

// Check returns why a replica may not be preempted, or Allowed. If a deployment's bounds are equal,
// they follow its number of replicas and are no minimum, but the last replica is still one unless
// the bounds are 0. Force sets only the minimum aside.
func Check(c Candidate) Refusal {
	left, least := c.Wanted-1, c.MinReplicas
	if c.MinReplicas == c.MaxReplicas {
		least = min(1, c.MinReplicas)
	}
	switch {
	case c.Critical:
		return Refusal{NotAllowed, fmt.Sprintf(
			"model %s is critical, and its replicas are never preempted; lower its priority first", c.Model)}
	case c.Stopping:
		return Refusal{AlreadyStopping, fmt.Sprintf("replica %s is already stopping; see replicas.list", c.Replica)}
	case left < least && !c.Force:
		return Refusal{BelowMinimum, fmt.Sprintf(
			`without %s, model %s would have %d replicas, and its minimum is %d; `+
				`start another replica first, or send {"name": %q, "force": true}`,
			c.Replica, c.Model, max(0, left), least, c.Replica)}
	}
	return Refusal{}
}
