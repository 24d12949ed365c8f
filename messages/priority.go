package messages

import "strings"

const classPrefix = "PRIORITY_CLASS_"

// PriorityClassByName returns the class that users call batch, standard or interactive.
func PriorityClassByName(name string) (PriorityClass, bool) {
	class, ok := PriorityClass_value[classPrefix+strings.ToUpper(name)]
	return PriorityClass(class), ok && class != 0
}
