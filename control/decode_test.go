package control

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"troupe/messages"
)

func TestNormalizeFillsDefaults(t *testing.T) {
	got, err := Normalize(&messages.DeploymentSpec{Name: "a", Path: "p", Replicas: new(uint32(2))})
	want := &messages.DeploymentSpec{
		Name: "a", Path: "p", Replicas: new(uint32(2)),
		Priority:     messages.Priority_PRIORITY_STANDARD.Enum(),
		MaxSequences: new(uint32(64)), MaxWaiting: new(uint32(1024)),
		StepTokens: new(uint32(512)), BlockTokens: new(uint32(16)),
		MinReplicas: new(uint32(2)), MaxReplicas: new(uint32(2)),
		TensorParallel: new(uint32(1)), Pinned: new(false),
		KvBlocks: new(uint32(0)), AdapterPages: new(uint32(0)), IdleAfter: new(uint32(0)), WakeWait: new(uint32(0)),
		MaxAdapters: new(uint32(32)), MaxAdapterRank: new(uint32(64)),
	}
	if err != nil || !proto.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for _, name := range []string{"", "-a", "a/b", "a b", "Ä", strings.Repeat("a", 64)} {
		if _, err := Normalize(&messages.DeploymentSpec{Name: name, Path: "p"}); err == nil {
			t.Errorf("name %q is accepted", name)
		}
	}
	for _, name := range []string{"A", "Qwen3-0.6B", "Llama_2.7b-chat"} {
		if _, err := Normalize(&messages.DeploymentSpec{Name: name, Path: "p"}); err != nil {
			t.Errorf("name %q: %v", name, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"deployment":{"name":"a","path":"b","replicas":1},"if_revision":"3"}`))
	f.Add([]byte(` `))
	f.Fuzz(func(t *testing.T, b []byte) {
		var m messages.DeployModelRequest
		if err := Decode(b, &m); err != nil {
			return
		}
		spec, err := Normalize(m.GetDeployment())
		if err == nil && (spec.GetBlockTokens() < 1 || spec.GetPath() == "" || spec.GetStepTokens() < 1) {
			t.Fatalf("accepted: %v", spec)
		}
	})
}
