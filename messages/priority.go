package messages

import "strings"

const classPrefix = "PRIORITY_CLASS_"

// PriorityClassByName returns the class named batch, standard or interactive, and whether the name
// is one of them.
func PriorityClassByName(name string) (PriorityClass, bool) {
	class, ok := PriorityClass_value[classPrefix+strings.ToUpper(name)]
	return PriorityClass(class), ok && class != 0
}
