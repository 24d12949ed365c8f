package messages

import (
	"encoding/json"
	"strconv"
	"strings"
)

const (
	classPrefix    = "PRIORITY_CLASS_"
	priorityPrefix = "PRIORITY_"
)

// priorityRow relates a priority to the classes of requests.
type priorityRow struct {
	priority Priority
	request  PriorityClass // of requests that set none
	// replica orders the replicas that share a device. Before priorities were stored, it was the stored
	// value of the field that now has the priority.
	replica PriorityClass
}

// priorityTable is the only relation between priorities and classes.
var priorityTable = []priorityRow{
	{Priority_PRIORITY_CRITICAL, PriorityClass_PRIORITY_CLASS_INTERACTIVE, PriorityClass_PRIORITY_CLASS_CRITICAL},
	{Priority_PRIORITY_HIGH, PriorityClass_PRIORITY_CLASS_INTERACTIVE, PriorityClass_PRIORITY_CLASS_INTERACTIVE},
	{Priority_PRIORITY_STANDARD, PriorityClass_PRIORITY_CLASS_STANDARD, PriorityClass_PRIORITY_CLASS_STANDARD},
	{Priority_PRIORITY_BATCH, PriorityClass_PRIORITY_CLASS_BATCH, PriorityClass_PRIORITY_CLASS_BATCH},
}

// rowOf returns the row of a priority. One that is unknown or absent is standard.
func rowOf(p Priority) priorityRow {
	standard := priorityRow{}
	for _, row := range priorityTable {
		if row.priority == p {
			return row
		}
		if row.priority == Priority_PRIORITY_STANDARD {
			standard = row
		}
	}
	return standard
}

// Word returns the priority as operators write it: "high".
func (p Priority) Word() string {
	return strings.ToLower(strings.TrimPrefix(p.String(), priorityPrefix))
}

// PriorityByName returns the priority named critical, high, standard or batch, and whether the name is
// one of them. The class interactive means high, as priorityTable relates the two.
func PriorityByName(name string) (Priority, bool) {
	for _, row := range priorityTable {
		if name == row.priority.Word() || classPrefix+strings.ToUpper(name) == row.replica.String() {
			return row.priority, true
		}
	}
	return Priority_PRIORITY_UNSPECIFIED, false
}

// PriorityClassByName returns the class named batch, standard or interactive, and whether the name
// is one of them.
func PriorityClassByName(name string) (PriorityClass, bool) {
	class, ok := PriorityClass_value[classPrefix+strings.ToUpper(name)]
	return PriorityClass(class), ok && class != 0 && PriorityClass(class) <= PriorityClass_PRIORITY_CLASS_INTERACTIVE
}

// RequestClass returns the class of the deployment's requests that set none.
func (s *DeploymentSpec) RequestClass() PriorityClass {
	if s != nil && s.DefaultClass != nil {
		return requestClass(s.GetDefaultClass())
	}
	return rowOf(s.GetPriority()).request
}

// ReplicaClass returns the class by which replicas of the deployment precede others on their device.
func (s *DeploymentSpec) ReplicaClass() PriorityClass {
	if s != nil && s.DefaultClass != nil && s.GetPriority() != Priority_PRIORITY_CRITICAL {
		return requestClass(s.GetDefaultClass())
	}
	return rowOf(s.GetPriority()).replica
}

// RequestClass returns the class of the deployment's requests that set none.
func (s *ReplicaSpec) RequestClass() PriorityClass { return requestClass(s.GetPriority()) }

func requestClass(replica PriorityClass) PriorityClass {
	return min(replica, PriorityClass_PRIORITY_CLASS_INTERACTIVE)
}

// FormerClass returns the class that stood for the deployment's priority before priorities were stored.
func (p Priority) FormerClass() PriorityClass { return rowOf(p).replica }

// MigrateDeployment returns the JSON form of a deployment in which a class in the field priority, as
// versions without priorities stored it and requests may still have it, is replaced by the priority. It
// returns data itself if there is none, or if data is not a JSON object.
func MigrateDeployment(data []byte) []byte {
	var fields map[string]json.RawMessage
	var name string
	if json.Unmarshal(data, &fields) != nil || json.Unmarshal(fields["priority"], &name) != nil {
		return data
	}
	priority, known := PriorityByName(strings.ToLower(strings.TrimPrefix(name, classPrefix)))
	if !known {
		return data
	}
	fields["priority"] = json.RawMessage(strconv.Quote(priority.String()))
	migrated, err := json.Marshal(fields)
	if err != nil {
		return data
	}
	return migrated
}
