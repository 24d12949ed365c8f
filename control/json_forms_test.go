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

// TestDecodeSeconds checks the forms of fields that are a number of seconds.
func TestDecodeSeconds(t *testing.T) {
	for text, want := range map[string]uint32{`20`: 20, `"20"`: 20, `"20s"`: 20, `"1m30s"`: 90, `"0s"`: 0} {
		var m messages.DeployModelRequest
		err := Decode([]byte(`{"deployment": {"idle_after": `+text+`, "wakeWait": `+text+`}}`), &m)
		if d := m.GetDeployment(); err != nil || d.GetIdleAfter() != want || d.GetWakeWait() != want {
			t.Errorf("%s: %d, %d, %v", text, d.GetIdleAfter(), d.GetWakeWait(), err)
		}
	}
	for _, text := range []string{`"soon"`, `"1500ms"`, `"-1s"`, `1.5`} {
		var m messages.DeployModelRequest
		err := Decode([]byte(`{"deployment": {"idle_after": `+text+`}}`), &m)
		if err == nil || !strings.HasSuffix(err.Error(), `; send whole seconds as idle_after, such as 90 or "1m30s"`) {
			t.Errorf("%s: %v", text, err)
		}
	}
	err := Decode([]byte(`{"deployment": {"replicas": "many"}}`), &messages.DeployModelRequest{})
	if err == nil || strings.Contains(err.Error(), "seconds") {
		t.Errorf("another number: %v", err)
	}
}
