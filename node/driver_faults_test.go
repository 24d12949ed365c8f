//go:build linux

package node_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"troupe/cuda/driver"
	"troupe/cuda/host"
	"troupe/cuda/telemetry"
	"troupe/messages"
	"troupe/node"
	"troupe/testkit/fakecuda"
	"troupe/testkit/kernelhost"
)

// logBuffer collects the log of a node.
type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *logBuffer) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

// take returns the log since the last call.
func (j *logBuffer) take() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	defer j.text.Reset()
	return j.text.String()
}

// fakeGPU returns a fake CUDA driver that runs the kernels' CUDA sources on the CPU.
func fakeGPU(t *testing.T) (*fakecuda.Fake, *driver.Library) {
	fake := fakecuda.Open(t)
	fake.Do("kernels " + kernelhost.Build(t))
	library, err := driver.Load(fake.Path)
	if err != nil {
		t.Fatal(err)
	}
	return fake, library
}

// slow returns a deployment that is small enough for the fake GPU, which runs every thread of a kernel.
func slow(model string, replicas uint32) *messages.DeploymentSpec {
	spec := kjvSpec(replicas)
	spec.Path, spec.MaxSequences, spec.StepTokens = model, new(uint32(4)), new(uint32(64))
	return spec
}

// startOnFake starts a node whose first GPU is the fake one, with software GPUs after it. The
// faults are armed before the model is deployed.
func startOnFake(t *testing.T, fake *fakecuda.Fake, l *driver.Library, model string, software int,
	faults string) (*node.Node, *logBuffer) {
	t.Helper()
	d, err := l.Open(0, driver.Embedded{})
	if err != nil {
		t.Fatal(err)
	}
	log := &logBuffer{}
	n := start(t, func(c *node.Config) {
		c.GPUs = []node.GPU{{Device: d, Source: telemetry.Device(d)}}
		c.Devices = []host.Config{{Index: 1, MemoryBytes: 256 << 20}}[:software]
		c.Deployments = nil
		c.Log = zerolog.New(zerolog.MultiLevelWriter(zerolog.NewTestWriter(t), log)).Level(zerolog.InfoLevel)
	})
	fake.Fault(faults)
	if _, err := n.PutDeployment(t.Context(), slow(model, uint32(1+software)), 0); err != nil {
		t.Fatal(err)
	}
	return n, log
}

// response is the status of a request, and its text or error.
type response struct {
	status int
	text   string
}

// These prompts and outputs give a prefill and two steps that decode.
const fewPromptTokens, fewTokens = 3, 3

// completeFour runs four short greedy requests at once.
func completeFour(t *testing.T, n *node.Node) [4]response {
	t.Helper()
	var got [4]response
	var wait sync.WaitGroup
	for i, g := range goldens(t)[:len(got)] {
		wait.Go(func() {
			status, body := post(t, n, "/v1/completions", map[string]any{
				"model": "kjv", "prompt": g.PromptIDs[:fewPromptTokens], "max_tokens": fewTokens, "temperature": 0,
				"ignore_eos": true,
			})
			got[i] = response{status, string(body)}
			var c completion
			if status == http.StatusOK {
				if err := json.Unmarshal(body, &c); err != nil || len(c.Choices) != 1 ||
					c.Usage.CompletionTokens != fewTokens {
					t.Errorf("stream %d: %s", i, body)
					return
				}
				got[i].text = c.Choices[0].Text
			}
		})
	}
	wait.Wait()
	return got
}

// completeWithFaults runs the four requests until the armed faults have been reached. The loads that the
// router knows are up to 100 ms old, so that it may choose the software GPU for all four.
func completeWithFaults(t *testing.T, n *node.Node, fake *fakecuda.Fake, want [4]response) {
	t.Helper()
	waitFor(t, "the faults to be reached", func() bool {
		if got := completeFour(t, n); got != want {
			t.Errorf("got %v, want %v", got, want)
		}
		return fake.Unfired() == 0
	})
}

// expectedOutputs returns the responses of a software device.
func expectedOutputs(t *testing.T, model string) [4]response {
	want := completeFour(t, start(t, func(c *node.Config) {
		c.Deployments = []*messages.DeploymentSpec{slow(model, 1)}
	}))
	for _, r := range want {
		if r.text == "" {
			t.Fatalf("without faults: %v", r)
		}
	}
	return want
}

// awaitIdle waits until no sequence and no session is left.
func awaitIdle(t *testing.T, n *node.Node) {
	t.Helper()
	waitFor(t, "no sequence and no session to be left", func() bool {
		s, err := n.Backend().NodeStatus(t.Context())
		return err == nil && s.GetRunning()+s.GetWaiting() == 0 &&
			!strings.Contains(fmt.Sprint(n.Backend().Tree()), `kind:"session"`)
	})
}

// TestDriverFaultsChangeNoToken checks that a failed driver call under load crashes the engine with
// an error that names the fault. The engine restarts, every stream gets the same tokens, and no
// driver object leaks.
func TestDriverFaultsChangeNoToken(t *testing.T) {
	model := smallModel(t)
	want := expectedOutputs(t, model)
	fake, library := fakeGPU(t)
	live := fake.Live()
	t.Cleanup(func() { // after the node has stopped
		if left := fake.Live() - live; left != 0 {
			t.Errorf("%d objects leaked", left)
		}
	})
	n, log := startOnFake(t, fake, library, model, 1, "")
	awaitServing(t, n, 1, 1)
	completeFour(t, n) // creates the objects that are created once
	awaitIdle(t, n)
	serving := fake.Live()
	for _, tc := range []struct{ faults, says string }{
		{"cuMemcpyHtoDAsync_v2@2=1", "CUDA_ERROR_INVALID_VALUE"},
		{"cuMemcpyDtoHAsync_v2@1=1", "CUDA_ERROR_INVALID_VALUE"},
		{"cuLaunchKernel@1=1", "CUDA_ERROR_INVALID_VALUE"},
		{"cuLaunchKernel@25=701", "cuda: fault in"},
		{"cuLaunchKernel@1=1,cuMemAlloc_v2@1=2", "out of device memory"},
		{"cuLaunchKernel@1=1,cuMemHostRegister_v2@2=2", "out of device memory"},
		{"cuLaunchKernel@1=1,cuStreamCreateWithPriority@1=2", "out of device memory"},
	} {
		t.Run(tc.faults, func(t *testing.T) {
			log.take()
			fake.Fault(tc.faults)
			completeWithFaults(t, n, fake, want)
			fake.Reset()
			awaitServing(t, n, 1, 1)
			awaitIdle(t, n)
			if logged := log.take(); !strings.Contains(logged, tc.says) {
				t.Errorf("the log lacks %q: %s", tc.says, logged)
			}
			waitFor(t, fmt.Sprintf("%d objects, as before", serving), func() bool { return fake.Live() == serving })
			if q := gpuStatus(t, n, 0).GetQuarantine(); q != nil {
				t.Errorf("the device is not lost: %v", q)
			}
		})
	}
}

// TestDriverFaultsDuringLoad checks that a driver fault during the load of a model is logged, and
// that the load is retried on the same device or another one.
func TestDriverFaultsDuringLoad(t *testing.T) {
	model := smallModel(t)
	want := expectedOutputs(t, model)
	fake, library := fakeGPU(t)
	live := fake.Live()
	for _, tc := range []struct{ faults, says string }{
		{"cuMemAlloc_v2@1=2", "out of device memory"},
		{"cuMemHostRegister_v2@1=2", "out of device memory"},
		{"cuStreamCreateWithPriority@1=2", "out of device memory"},
		{"cuEventCreate@1=2", "out of device memory"},
		{"cuMemcpyHtoDAsync_v2@1=1", "CUDA_ERROR_INVALID_VALUE"},
	} {
		ok := t.Run(tc.faults, func(t *testing.T) {
			n, log := startOnFake(t, fake, library, model, 1, tc.faults)
			waitFor(t, "the fault to be reached", func() bool { return fake.Unfired() == 0 })
			fake.Reset()
			waitFor(t, "both replicas to serve, on any GPU", func() bool {
				d, err := n.Backend().Deployment(t.Context(), "kjv")
				return err == nil && strings.Count(fmt.Sprint(d.GetReplicas()), "REPLICA_STATE_SERVING") == 2
			})
			if got := completeFour(t, n); got != want {
				t.Errorf("got %v, want %v", got, want)
			}
			if logged := log.take(); !strings.Contains(logged, tc.says) {
				t.Errorf("the log lacks %q: %s", tc.says, logged)
			}
			awaitIdle(t, n)
		})
		if left := fake.Live() - live; ok && left != 0 {
			t.Errorf("%s: %d objects leaked", tc.faults, left)
		}
	}
}

// deviceLossFaults are faults after which the device is lost.
var deviceLossFaults = []struct{ faults, says string }{
	{"exec:copy@3=214", "CUDA_ERROR_ECC_UNCORRECTABLE"},
	{"exec:kernel@15=719", "CUDA_ERROR_LAUNCH_FAILED"},
	{"exec:kernel@34=700", "CUDA_ERROR_ILLEGAL_ADDRESS"},
	{"cuLaunchKernel@5=999!", "CUDA_ERROR_UNKNOWN"},
}

// TestLastingDriverFaultQuarantines checks that streams continue elsewhere with the same tokens
// when the device is lost, and that the device is quarantined and emptied.
func TestLastingDriverFaultQuarantines(t *testing.T) {
	model := smallModel(t)
	want := expectedOutputs(t, model)
	fake, library := fakeGPU(t)
	live := fake.Live()
	for _, tc := range deviceLossFaults {
		ok := t.Run(tc.faults, func(t *testing.T) {
			n, _ := startOnFake(t, fake, library, model, 1, "")
			awaitServing(t, n, 1, 1)
			fake.Fault(tc.faults)
			completeWithFaults(t, n, fake, want)
			awaitServing(t, n, 0, 2)
			waitFor(t, "the lost GPU to be empty",
				func() bool { return len(gpuStatus(t, n, 0).GetLeases()) == 0 && len(n.Residency()[0].Held()) == 0 })
			g := gpuStatus(t, n, 0)
			if q := g.GetQuarantine(); q.GetCause() != messages.QuarantineCause_QUARANTINE_CAUSE_DEVICE_LOST ||
				!strings.Contains(q.GetDetail(), tc.says) {
				t.Errorf("quarantined: %v", q)
			}
			awaitIdle(t, n)
			release := &messages.ReleaseGpuRequest{Node: "test", Name: "gpu-0"}
			if g, err := n.Backend().ReleaseGpu(t.Context(), release); err != nil || g.GetQuarantine() != nil {
				t.Fatalf("the device is not reopened: %v, %v", g, err)
			}
			deploy(t, n, slow(model, 3))
			awaitServing(t, n, 1, 2)
			if got := completeFour(t, n); got != want {
				t.Errorf("after the device was reopened: got %v, want %v", got, want)
			}
		})
		fake.Reset()
		if left := fake.Live() - live; ok && left != 0 {
			t.Errorf("%s: %d objects leaked", tc.faults, left)
		}
	}
}

// TestOnlyDeviceLost checks that, if there is no other device, streams end with an error that names
// the cause, and that the node keeps running.
func TestOnlyDeviceLost(t *testing.T) {
	fake, library := fakeGPU(t)
	n, _ := startOnFake(t, fake, library, smallModel(t), 0, "")
	awaitServing(t, n, 1)
	fake.Fault("exec:copy@3+=214") // and all later copies, so that no self-test passes
	for i, a := range completeFour(t, n) {
		if a.status != http.StatusServiceUnavailable || !strings.Contains(a.text, "CUDA_ERROR_ECC_UNCORRECTABLE") {
			t.Errorf("stream %d: %v", i, a)
		}
	}
	awaitIdle(t, n)
	if state := gpuStatus(t, n, 0).GetState(); state != messages.GpuState_GPU_STATE_QUARANTINED {
		t.Error(state)
	}
}
