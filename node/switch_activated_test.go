package node_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"troupe/messages"
	"troupe/node"
	"troupe/testkit"
)

// TestSwitchFailsAfterActivation activates a model by hand while a running sequence keeps it on the GPU
// that it has to leave. The switch fails while the sequence still runs, and the GPU can switch again.
func TestSwitchFailsAfterActivation(t *testing.T) {
	gpu := openWatched(t)
	n := start(t, func(c *node.Config) {
		c.GPUs, c.Devices = []node.GPU{gpu.GPU()}, nil
		c.Deployments = append(c.Deployments, &messages.DeploymentSpec{Name: "other", Path: testkit.Model()})
	})
	conn := connect(t, n)
	device := func() *messages.GpuStatus {
		return answer[messages.ListGpusResponse](t, conn, "troupe.v1.gpus.list", `{}`).GetGpus()[0]
	}
	levels := func() string {
		var all []string
		list := answer[messages.ListReplicasResponse](t, conn, "troupe.v1.replicas.list", `{}`)
		for _, r := range list.GetReplicas() {
			all = append(all, r.GetName()+" "+strings.TrimPrefix(r.GetState().String(), "REPLICA_STATE_"))
		}
		return strings.Join(all, ", ")
	}
	const toKjv = `{"node": "test", "name": "gpu-0", "to": "kjv"}`
	waitFor(t, "both models", func() bool { return levels() == "kjv-0 SERVING, other-0 SERVING" })

	gpu.hold.Lock()
	release := sync.OnceFunc(gpu.hold.Unlock)
	t.Cleanup(release)
	stream := make(chan int, 1)
	go func() {
		status, _ := post(t, n, "/v1/completions", map[string]any{
			"model": "other", "prompt": "And", "max_tokens": 20, "ignore_eos": true,
		})
		stream <- status
	}()
	waitFor(t, "a sequence", func() bool { return replica(t, n, "other").GetRunning() == 1 })
	inbox, err := conn.SubscribeSync(conn.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.PublishRequest("troupe.v1.gpus.switch", inbox.Subject, []byte(toKjv)); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the phase draining", func() bool {
		return device().GetState() == messages.GpuState_GPU_STATE_DRAINING &&
			fmt.Sprint(device().GetSwitch().GetWaitsFor()) == "[other-0]" &&
			levels() == "kjv-0 SERVING, other-0 SUSPENDING"
	})
	answer[messages.ActivateModelResponse](t, conn, "troupe.v1.models.activate", `{"name": "other"}`)
	m, err := inbox.NextMsg(time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if code := m.Header.Get("Nats-Service-Error-Code"); code != "409" ||
		!strings.Contains(string(m.Data), "replica other-0 was activated meanwhile; what served there serves again") {
		t.Errorf("%s %s", code, m.Data)
	}
	waitFor(t, "both models again", func() bool { return levels() == "kjv-0 SERVING, other-0 SERVING" })
	release()
	if status := <-stream; status != 200 {
		t.Errorf("the sequence that ran during the switch: %d", status)
	}
	done := answer[messages.SwitchGpuResponse](t, conn, "troupe.v1.gpus.switch", toKjv).GetSwitch()
	if done.GetFailure() != "" {
		t.Errorf("%v", done)
	}
	waitFor(t, "the switch to be reported", func() bool { return levels() == "kjv-0 SERVING, other-0 STANDBY" })
}
