package control

import (
	"strings"
	"testing"

	"troupe/messages"
)

func TestDecodeShortEnumNames(t *testing.T) {
	for _, name := range []string{"batch", "Batch", "PRIORITY_BATCH", "PRIORITY_CLASS_BATCH"} {
		var m messages.DeployModelRequest
		err := Decode([]byte(`{"deployment": {"name": "a", "path": "p", "priority": "`+name+`"}}`), &m)
		if got := m.GetDeployment().GetPriority(); err != nil || got != messages.Priority_PRIORITY_BATCH {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	var m messages.DeployModelRequest
	err := Decode([]byte(`{"deployment": {"priority": "urgent"}}`), &m)
	if err == nil || !strings.HasSuffix(err.Error(), "; send one of critical, high, standard, batch") {
		t.Errorf("%v", err)
	}
	err = Decode([]byte(`{"deployment": {"priority": "batch", "name": 7}}`), &m)
	if err == nil || strings.Contains(err.Error(), "send one of") {
		t.Errorf("another field: %v", err)
	}
	err = Decode([]byte(`{"deployment": {"replica_levels": {"a-0": "parked"}}}`), &m)
	if got := m.GetDeployment().GetReplicaLevels()["a-0"]; err != nil || got != messages.Level_LEVEL_PARKED {
		t.Errorf("values of a map: %v, %v", got, err)
	}
}
