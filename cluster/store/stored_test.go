package store

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"troupe/messages"
)

// TestReadsStoredValues checks that values written by earlier versions are read without losing a field:
// testdata/stored-wire-1.json has one value of each kind with all fields set, as wire version 1 wrote it, and
// testdata/stored-wire-2.json what was added since. A field that is renamed needs a migration here.
func TestReadsStoredValues(t *testing.T) {
	for _, path := range []string{"testdata/stored-wire-1.json", "testdata/stored-wire-2.json"} {
		testReadsStored(t, path)
	}
}

func testReadsStored(t *testing.T, path string) {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var stored map[string]json.RawMessage
	if err := json.Unmarshal(text, &stored); err != nil {
		t.Fatal(err)
	}
	for key, value := range stored {
		into := map[string]proto.Message{
			"deployments": &messages.DeploymentSpec{}, "adapters": &messages.AdapterSpec{},
			"nodes": &messages.NodeSpec{}, "pins": &messages.PinnedPrefix{}, "settings": &messages.PlannerPause{},
		}[key[:strings.IndexByte(key, '.')]]
		if into == nil {
			t.Fatalf("unknown kind of key %s", key)
		}
		if strings.HasPrefix(key, "deployments.") {
			class := `"priority":"PRIORITY_CLASS_`
			if value = messages.MigrateDeployment(value); bytes.Contains(value, []byte(class)) {
				t.Errorf("key %s is not migrated: %s", key, value)
			}
		}
		if err := protojson.Unmarshal(value, into); err != nil { // unlike unmarshal, it reports unknown fields
			t.Errorf("key %s: %v", key, err)
		}
		again, err := encode(into)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := sorted(t, again), sorted(t, value); got != want {
			t.Errorf("key %s was %s and is written as %s", key, want, got)
		}
		into.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			if !f.IsList() && f.Message() == nil && v.Equal(f.Default()) {
				t.Errorf("key %s: field %s has its default; set it in testdata", key, f.Name())
			}
			return true
		})
	}
}

// sorted returns an object with its fields in the order of their names.
func sorted(t *testing.T, value []byte) string {
	t.Helper()
	var fields map[string]any
	if err := json.Unmarshal(value, &fields); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestMigratesClasses checks that a class that was stored as the priority is read as the priority, and
// that its requests and replicas keep their class.
func TestMigratesClasses(t *testing.T) {
	for stored, want := range map[string]struct {
		priority          messages.Priority
		requests, devices string
	}{
		"PRIORITY_CLASS_CRITICAL": {messages.Priority_PRIORITY_CRITICAL,
			"PRIORITY_CLASS_INTERACTIVE", "PRIORITY_CLASS_CRITICAL"},
		"PRIORITY_CLASS_INTERACTIVE": {messages.Priority_PRIORITY_HIGH,
			"PRIORITY_CLASS_INTERACTIVE", "PRIORITY_CLASS_INTERACTIVE"},
		"PRIORITY_CLASS_STANDARD": {messages.Priority_PRIORITY_STANDARD,
			"PRIORITY_CLASS_STANDARD", "PRIORITY_CLASS_STANDARD"},
		"PRIORITY_CLASS_BATCH": {messages.Priority_PRIORITY_BATCH,
			"PRIORITY_CLASS_BATCH", "PRIORITY_CLASS_BATCH"},
		"PRIORITY_HIGH": {messages.Priority_PRIORITY_HIGH,
			"PRIORITY_CLASS_INTERACTIVE", "PRIORITY_CLASS_INTERACTIVE"},
	} {
		spec := &messages.DeploymentSpec{}
		if err := unmarshal([]byte(`{"name": "a", "priority": "`+stored+`"}`), spec); err != nil {
			t.Errorf("%s: %v", stored, err)
		}
		if spec.GetPriority() != want.priority || spec.RequestClass().String() != want.requests ||
			spec.ReplicaClass().String() != want.devices {
			t.Errorf("%s: priority %s, requests %s, replicas %s", stored, spec.GetPriority(), spec.RequestClass(),
				spec.ReplicaClass())
		}
	}
}
