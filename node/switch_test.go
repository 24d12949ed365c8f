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

// TestSwitchGpu switches a GPU between two models that have a replica there. It holds the device in
// the phase draining by a running sequence.
func TestSwitchGpu(t *testing.T) {
	gpu := openWatched(t)
	n := start(t, func(c *node.Config) {
		c.GPUs, c.Devices = []node.GPU{gpu.GPU()}, nil
		c.Deployments = append(c.Deployments, &messages.DeploymentSpec{Name: "other", Path: testkit.Model()})
	})
	conn := connect(t, n)
	events, err := conn.SubscribeSync("troupe.v1.events.>")
	if err != nil {
		t.Fatal(err)
	}
	device := func() *messages.GpuStatus {
		return answer[messages.ListGpusResponse](t, conn, "troupe.v1.gpus.list", `{}`).GetGpus()[0]
	}
	levels := func() string {
		var all []string
		list := answer[messages.ListReplicasResponse](t, conn, "troupe.v1.replicas.list", `{}`)
		for _, r := range list.GetReplicas() {
			all = append(all, r.GetName()+" "+strings.TrimPrefix(r.GetLevel().String(), "LEVEL_"))
		}
		return strings.Join(all, ", ")
	}
	to := func(model string) string { return fmt.Sprintf(`{"node": "test", "name": "gpu-0", "to": %q}`, model) }
	waitFor(t, "both models", func() bool { return levels() == "kjv-0 ACTIVE, other-0 ACTIVE" })

	done := answer[messages.SwitchGpuResponse](t, conn, "troupe.v1.gpus.switch", to("other")).GetSwitch()
	if done.GetTo() != "other-0" || fmt.Sprint(done.GetLeave()) != "[kjv-0]" || done.GetFailure() != "" ||
		done.GetMetrics().GetSource() != "device" || done.GetMetrics().GetBytes() != 0 {
		t.Errorf("%v", done)
	}
	waitFor(t, "the levels", func() bool { return levels() == "kjv-0 STANDBY, other-0 ACTIVE" })
	waitFor(t, "the event", func() bool {
		m, err := events.NextMsg(time.Second)
		return err == nil && strings.HasSuffix(m.Subject, "gpu.switched") &&
			strings.Contains(string(m.Data), "to other-0")
	})

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
	if err := conn.PublishRequest("troupe.v1.gpus.switch", inbox.Subject, []byte(to("kjv"))); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the phase draining", func() bool {
		d := device()
		return d.GetState() == messages.GpuState_GPU_STATE_DRAINING &&
			fmt.Sprint(d.GetSwitch().GetWaitsFor()) == "[other-0]"
	})
	refused := request(t, conn, "troupe.v1.gpus.switch", to("other"))
	if code := refused.Header.Get("Nats-Service-Error-Code"); code != "409" ||
		!strings.Contains(string(refused.Data), "switches to kjv-0, and waits for [other-0]") {
		t.Errorf("%s %s", code, refused.Data)
	}
	release()
	if status := <-stream; status != 200 {
		t.Errorf("the sequence that ran during the switch: %d", status)
	}
	if m, err := inbox.NextMsg(time.Minute); err != nil || m.Header.Get("Nats-Service-Error") != "" {
		t.Errorf("%v %v", m, err)
	}
	waitFor(t, "the levels", func() bool { return levels() == "kjv-0 ACTIVE, other-0 STANDBY" })
	if device().GetSwitch().GetMetrics().GetDrain() == nil {
		t.Errorf("%v", device().GetSwitch())
	}
	complete(t, n, map[string]any{"model": "kjv", "prompt": "And", "max_tokens": 2})

	answer[messages.ScaleModelResponse](t, conn, "troupe.v1.models.scale", `{"name": "other", "replicas": 0}`)
	waitFor(t, "no replica", func() bool { return levels() == "kjv-0 ACTIVE" })
	for name, tc := range map[string]struct{ body, code, text string }{
		"no model":   {`{"node": "test", "name": "gpu-0"}`, "400", "to is missing"},
		"unknown":    {to("none"), "404", "is not deployed"},
		"no replica": {to("other"), "404", `"not_loaded":{"model":"other","device":"test/gpu-0"}`},
		"no GPU":     {`{"node": "test", "to": "kjv"}`, "400", "node or name is missing"},
	} {
		m := request(t, conn, "troupe.v1.gpus.switch", tc.body)
		if m.Header.Get("Nats-Service-Error-Code") != tc.code || !strings.Contains(string(m.Data), tc.text) {
			t.Errorf("%s: %v %s", name, m.Header, m.Data)
		}
	}
}
