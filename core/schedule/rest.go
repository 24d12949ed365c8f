package schedule

// Rest is whether a deployment wants replicas and, if it wants none, what starts them.
type Rest uint8

const (
	Awake   Rest = iota // replicas are wanted
	Asleep              // none is wanted until a request wakes the deployment
	Stopped             // none is wanted until an operator starts the deployment
)

func (r Rest) String() string { return [...]string{"awake", "asleep", "stopped"}[r] }

// RestOf returns the rest of a deployment with a number of replicas and its bounds. A deployment
// without replicas is asleep if its minimum allows that and its maximum allows replicas. Otherwise
// an operator stopped it.
func RestOf(replicas, minReplicas, maxReplicas int) Rest {
	switch {
	case replicas > 0:
		return Awake
	case minReplicas == 0 && maxReplicas > 0:
		return Asleep
	}
	return Stopped
}
