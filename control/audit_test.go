package control

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"troupe/messages"
)

// TestAuditedEndpoints checks that each endpoint is either read-only or audited. A new endpoint
// must be listed in readOnly or here.
func TestAuditedEndpoints(t *testing.T) {
	changes := []string{
		"models-deploy", "models-scale", "models-delete",
		"adapters-register", "adapters-delete", "adapters-pin", "adapters-unpin",
		"replicas-restart", "replicas-migrate", "replicas-preempt",
		"nodes-drain", "nodes-undrain", "gpus-quarantine", "gpus-release",
		"gpus-evict", "models-park", "models-release", "models-standby", "models-activate", switchEndpoint,
		"kv-offload", "kv-restore", "kv-flush", "kv-pin", "kv-unpin", "node-kv", "node-record",
		"planner-pause", "planner-resume",
	}
	c := &control{Config: Config{Node: "n1", Backend: backend{}}}
	for _, e := range c.endpoints(t.Context()) {
		if readOnly[e.Name] == slices.Contains(changes, e.Name) {
			t.Errorf("%s: read-only is %t; list it in readOnly or in this test", e.Name, readOnly[e.Name])
		}
	}
}

// backend is a Backend that is never called.
type backend struct{ Backend }

// TestObjectOf checks that the object of a request contains no prompt.
func TestObjectOf(t *testing.T) {
	const prompt = "PROMPT"
	restore := &messages.KvRestoreRequest{Model: "kjv", Prompt: prompt}
	for _, tc := range []struct {
		request proto.Message
		want    string
	}{
		{&messages.ScaleModelRequest{Name: "kjv", Replicas: new(uint32(3))}, "name=kjv replicas=3"},
		{&messages.DeployModelRequest{Deployment: &messages.DeploymentSpec{Name: "kjv", Path: "/m"}},
			"deployment.name=kjv deployment.path=/m"},
		{&messages.KvPinRequest{Model: "kjv", Prompt: prompt, Tokens: []uint32{1}}, "model=kjv"},
		{&messages.KvNodeRequest{What: &messages.KvNodeRequest_Restore{Restore: restore}}, "restore.model=kjv"},
		{&messages.QuarantineGpuRequest{Node: "n1", Name: "gpu-0", Detail: prompt}, "name=gpu-0 node=n1"},
	} {
		got := objectOf(tc.request)
		if got != tc.want || strings.Contains(got, prompt) {
			t.Errorf("%T: %q, want %q", tc.request, got, tc.want)
		}
	}
}
