package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"troupe/core/hbm"
	"troupe/messages"
	"troupe/testkit"
	"troupe/testkit/models"
)

// answerTo sends a request over NATS and decodes the answer.
func answerTo[T any, P interface {
	*T
	proto.Message
}](t *testing.T, url, subject, body string) P {
	t.Helper()
	text, into := ask(t, url, "troupe.v1."+subject, body), P(new(T))
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%s %s: %v: %s", subject, body, err, text)
	}
	return into
}

// deployUntil deploys a model and waits until its deployment serves or has failed.
func deployUntil(t *testing.T, url, name, path string, fields string) *messages.DeploymentStatus {
	t.Helper()
	answer := answerTo[messages.DeployModelResponse](t, url, "models.deploy",
		fmt.Sprintf(`{"deployment": {"name": %q, "path": %q, "max_sequences": 4 %s}}`, name, path, fields))
	if answer.GetDeployment().GetName() != name {
		t.Fatalf("deploy %s: %v", name, answer)
	}
	var d *messages.DeploymentStatus
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-time.After(20 * time.Millisecond) {
		d = answerTo[messages.GetModelResponse](t, url, "models.get", fmt.Sprintf(`{"name": %q}`, name)).GetModel()
		switch d.GetState() {
		case messages.DeploymentState_DEPLOYMENT_STATE_READY, messages.DeploymentState_DEPLOYMENT_STATE_FAILED:
			return d
		}
	}
	t.Fatalf("%s: %v", name, d)
	return nil
}

func onlyGPU(t *testing.T, url string) *messages.GpuStatus {
	t.Helper()
	return answerTo[messages.ListGpusResponse](t, url, "gpus.list", "{}").GetGpus()[0]
}

// leastDevice returns the smallest memory of a device, in whole pages, with room for what a budget
// lists beside the KV reserve.
func leastDevice(b *messages.MemoryBudget) int64 {
	total := int64(hbm.PageBytes)
	for {
		reserve := hbm.NewBudget(total, hbm.DefaultKVReserve).Reserve
		if int64(b.GetFixed())+max(reserve, int64(b.GetKvMinBytes())) <= total {
			return total
		}
		total += hbm.PageBytes
	}
}

// TestModelsFitToTheByte runs two models on a GPU with exactly the memory that they need, and then
// with one byte less: the second model is refused with all figures over NATS, over HTTP and in the
// command line, and the first one serves.
func TestModelsFitToTheByte(t *testing.T) {
	variant := filepath.Join(t.TempDir(), "variant")
	if err := models.Perturb(testkit.Model(), variant, 1); err != nil {
		t.Fatal(err)
	}
	_, url := startNode(t, t.TempDir())
	deployUntil(t, url, "kjv", testkit.Model(), "")
	one := onlyGPU(t, url).GetBudget()
	deployUntil(t, url, "variant", variant, "")
	two := onlyGPU(t, url).GetBudget()
	total := leastDevice(two)
	if two.GetKvMinBytes() >= uint64(total)*3/10 {
		t.Fatalf("the reserve of %d bytes decides nothing: %v", total, two)
	}

	_, url = startNode(t, t.TempDir(), "--devices", fmt.Sprintf("host:1x%d", total))
	deployUntil(t, url, "kjv", testkit.Model(), "")
	if d := deployUntil(t, url, "variant", variant, ""); d.GetState() !=
		messages.DeploymentState_DEPLOYMENT_STATE_READY {
		t.Fatalf("with %d bytes: %s", total, d.GetDetail())
	}

	_, url = startNode(t, t.TempDir(), "--devices", fmt.Sprintf("host:1x%d", total-1))
	deployUntil(t, url, "kjv", testkit.Model(), "")
	d := deployUntil(t, url, "variant", variant, "")
	want := &messages.MemoryShortage{
		Model: variant,
		Bytes: two.GetFixed() - one.GetFixed() + two.GetKvMinBytes() - one.GetKvMinBytes(),
		Used:  one.GetFixed() + one.GetKvMinBytes(), Total: uint64(total - hbm.PageBytes),
		Reserve: uint64(hbm.NewBudget(total-hbm.PageBytes, hbm.DefaultKVReserve).Reserve),
		Device:  onlyGPU(t, url).GetNode() + "/gpu-0",
	}
	want.Leave = []*messages.MemoryHolder{{
		Model: "kjv", Replicas: []string{"kjv-0"}, Bytes: want.GetUsed(), Command: `models.park {"name": "kjv"}`,
	}}
	if got := d.GetFailure(); got.GetReason() != messages.Reason_REASON_NO_MEMORY ||
		!proto.Equal(got.GetMemory(), want) {
		t.Errorf("with %d bytes: %v, want %v", total-1, got, want)
	}
	refusesRequests(t, url, want)
	if frame := runCommand(t, "top", "--once", "--nats", url); !strings.Contains(frame, "short of memory by 2 MiB") {
		t.Errorf("top:\n%s", frame)
	}
	large := deployUntil(t, url, "large", variant, `, "kv_blocks": 16777216`)
	if m := large.GetFailure().GetMemory(); m.GetBytes() <= m.GetTotal() || m.GetTotal() != want.GetTotal() {
		t.Errorf("a model larger than the GPU: %v", large.GetFailure())
	}
	serves(t, url)
}

// refusesRequests checks that requests for the model "variant" are refused with the figures. The
// folder of the model is not shown to clients.
func refusesRequests(t *testing.T, url string, want *messages.MemoryShortage) {
	t.Helper()
	want = proto.CloneOf(want)
	want.Model = ""
	const request = `{"model": "variant", "prompt": "a", "max_tokens": 1, "stream": false}`
	refused := answerTo[messages.ErrorResponse](t, url, "infer.variant", request)
	if refused.GetReason() != messages.Reason_REASON_NO_MEMORY || !proto.Equal(refused.GetMemory(), want) {
		t.Errorf("over NATS: %v", refused)
	}
	node := answerTo[messages.ListNodesResponse](t, url, "nodes.list", "{}").GetNodes()[0].GetMember()
	res, err := http.Post(node.GetHttpUrl()+"/v1/completions", "application/json", bytes.NewBufferString(request))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var failed struct {
		Error struct {
			Memory struct {
				Model                                  string
				Bytes, Used, Total, Reserve, Evictable uint64
			}
		}
	}
	m := &failed.Error.Memory
	if err := json.Unmarshal(body, &failed); err != nil || res.StatusCode != http.StatusServiceUnavailable ||
		m.Bytes != want.GetBytes() || m.Used != want.GetUsed() || m.Total != want.GetTotal() ||
		m.Reserve != want.GetReserve() || m.Evictable != want.GetEvictable() {
		t.Errorf("over HTTP: %d %s, want %v", res.StatusCode, body, want)
	}
}

// TestEvictRefuses checks that gpus.evict refuses weights that a replica uses, and names the model
// and the GPU of weights that are not there.
func TestEvictRefuses(t *testing.T) {
	_, url := startNode(t, t.TempDir())
	deployUntil(t, url, "kjv", testkit.Model(), "")
	gpu := onlyGPU(t, url)
	evict := func(model string) *messages.ErrorResponse {
		return answerTo[messages.ErrorResponse](t, url, "gpus.evict",
			fmt.Sprintf(`{"node": %q, "name": "gpu-0", "model": %q}`, gpu.GetNode(), model))
	}
	if got := evict("kjv"); got.GetReason() != messages.Reason_REASON_CONFLICT ||
		!strings.Contains(got.GetError(), "kjv-0") {
		t.Errorf("weights in use: %v", got)
	}
	want := &messages.ModelNotLoaded{Model: "other", Device: gpu.GetNode() + "/gpu-0"}
	if got := evict("other"); got.GetReason() != messages.Reason_REASON_NOT_FOUND ||
		!proto.Equal(got.GetNotLoaded(), want) {
		t.Errorf("weights that are not there: %v", got)
	}
	serves(t, url)
	if w := onlyGPU(t, url).GetWeights(); len(w) != 1 || w[0].GetUsers()[0] != "kjv-0" {
		t.Errorf("weights after the refusals: %v", w)
	}
}
