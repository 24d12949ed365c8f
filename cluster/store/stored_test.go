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

// TestReadsStoredValues checks that values written by wire version 1 are read without losing a
// field: testdata/stored-wire-1.json has one value of each kind with all fields set, as that version
// wrote it. A field that is renamed needs a migration here.
func TestReadsStoredValues(t *testing.T) {
	text, err := os.ReadFile("testdata/stored-wire-1.json")
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
			"nodes": &messages.NodeSpec{}, "pins": &messages.PinnedPrefix{},
		}[key[:strings.IndexByte(key, '.')]]
		if into == nil {
			t.Fatalf("unknown kind of key %s", key)
		}
		if err := protojson.Unmarshal(value, into); err != nil { // unlike unmarshal, it reports unknown fields
			t.Errorf("key %s: %v", key, err)
		}
		again, err := encode(into)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := compact(t, again), compact(t, value); got != want {
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

func compact(t *testing.T, value []byte) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, value); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
