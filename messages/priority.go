package messages

import "strings"

const classPrefix = "PRIORITY_CLASS_"

// PriorityClassByName returns the class named batch, standard or interactive, and whether the name
// is one of them.
func PriorityClassByName(name string) (PriorityClass, bool) {
	class, ok := PriorityClass_value[classPrefix+strings.ToUpper(name)]
	return PriorityClass(class), ok && class != 0 && PriorityClass(class) <= PriorityClass_PRIORITY_CLASS_INTERACTIVE
}

// RequestClass returns the class of the deployment's requests that set none.
func (s *DeploymentSpec) RequestClass() PriorityClass { return requestClass(s.GetPriority()) }

// RequestClass returns the class of the deployment's requests that set none.
func (s *ReplicaSpec) RequestClass() PriorityClass { return requestClass(s.GetPriority()) }

func requestClass(deployment PriorityClass) PriorityClass {
	return min(deployment, PriorityClass_PRIORITY_CLASS_INTERACTIVE)
}
