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

// logBuffer keeps what a node logs.
type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *logBuffer) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

// take returns what was written since the last time.
func (j *logBuffer) take() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	defer j.text.Reset()
	return j.text.String()
}

// fakeGPU is a library that stands in for a GPU's, with the CUDA sources for kernels.
func fakeGPU(t *testing.T) (*fakecuda.Fake, *driver.Library) {
	fake := fakecuda.Open(t)
	fake.Do("kernels " + kernelhost.Build(t))
	library, err := driver.Load(fake.Path)
	if err != nil {
		t.Fatal(err)
	}
	return fake, library
}

// slow is a deployment that the CUDA sources on the CPU are fast enough for.
func slow(replicas uint32) *messages.DeploymentSpec {
	spec := kjvSpec(replicas)
	spec.MaxSequences, spec.StepTokens = new(uint32(4)), new(uint32(64))
	return spec
}

// startOnFake starts a node whose first GPU is the fake's, and whose second, if any, is a software device. The faults are armed before
// the model is deployed on each.
func startOnFake(t *testing.T, fake *fakecuda.Fake, l *driver.Library, software int, faults string) (*node.Node, *logBuffer) {
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
	if _, err := n.PutDeployment(t.Context(), slow(uint32(1+software)), 0); err != nil {
		t.Fatal(err)
	}
	return n, log
}

// ended is the status and the text, or the error, that a stream ended with.
type response struct {
	status int
	text   string
}

// few runs four short greedy requests at once.
func completeFour(t *testing.T, n *node.Node) [4]response {
	t.Helper()
	var got [4]response
	var wait sync.WaitGroup
	for i, g := range goldens(t)[:len(got)] {
		wait.Go(func() {
			status, body := post(t, n, "/v1/completions", map[string]any{
				"model": "kjv", "prompt": g.Prompt, "max_tokens": 5, "temperature": 0, "ignore_eos": true,
			})
			got[i] = response{status, string(body)}
			var c completion
			if status == http.StatusOK {
				if err := json.Unmarshal(body, &c); err != nil || len(c.Choices) != 1 || c.Usage.CompletionTokens != 5 {
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

// expectedOutputs are the answers that no fault may change: those of a software device, which are the beginnings of the goldens.
func expectedOutputs(t *testing.T) [4]response {
	want := completeFour(t, start(t, func(c *node.Config) { c.Deployments = []*messages.DeploymentSpec{kjvSpec(1)} }))
	for i, g := range goldens(t)[:len(want)] {
		if want[i].text == "" || !strings.HasPrefix(g.Text, want[i].text) {
			t.Fatalf("without faults: %v, not the beginning of %q", want[i], g.Text)
		}
	}
	return want
}

// quiet waits until nothing is left of requests, and of leases only those of the replicas.
func awaitIdle(t *testing.T, n *node.Node) {
	t.Helper()
	waitFor(t, "nothing is left of the requests", func() bool {
		s, err := n.NodeStatus(t.Context())
		return err == nil && s.GetRunning()+s.GetWaiting() == 0 &&
			!strings.Contains(fmt.Sprint(n.Tree()), `kind:"session"`)
	})
}

// TestDriverFaultsChangeNoToken: calls of the driver fail one by one under a node that serves. The engine crashes, with an error that says what
// failed, and comes back; every stream has the tokens of an expectedOutputs run; nothing is left.
func TestDriverFaultsChangeNoToken(t *testing.T) {
	want := expectedOutputs(t)
	fake, library := fakeGPU(t)
	live := fake.Live()
	t.Cleanup(func() { // once the node has stopped
		if left := fake.Live() - live; left != 0 {
			t.Errorf("%d objects were not given back", left)
		}
	})
	n, log := startOnFake(t, fake, library, 1, "")
	awaitServing(t, n, 1, 1)
	completeFour(t, n) // makes what is made once
	awaitIdle(t, n)
	serving := fake.Live()
	for _, tc := range []struct{ faults, says string }{
		{"cuMemcpyHtoDAsync_v2@2=1", "CUDA_ERROR_INVALID_VALUE"},
		{"cuMemcpyDtoHAsync_v2@1=1", "CUDA_ERROR_INVALID_VALUE"},
		{"cuLaunchKernel@1=1", "CUDA_ERROR_INVALID_VALUE"},
		{"cuLaunchKernel@70=701", "cuda: fault in"},
		{"cuLaunchKernel@1=1,cuMemAlloc_v2@1=2", "out of device memory"},
		{"cuLaunchKernel@1=1,cuMemHostRegister_v2@2=2", "out of device memory"},
		{"cuLaunchKernel@1=1,cuStreamCreateWithPriority@1=2", "out of device memory"},
	} {
		t.Run(tc.faults, func(t *testing.T) {
			log.take()
			fake.Fault(tc.faults)
			got := completeFour(t, n)
			if unfired := fake.Unfired(); unfired != 0 {
				t.Errorf("%d faults were not met", unfired)
			}
			fake.Reset()
			if got != want {
				t.Errorf("got %v, want %v", got, want)
			}
			awaitServing(t, n, 1, 1)
			awaitIdle(t, n)
			if said := log.take(); !strings.Contains(said, tc.says) {
				t.Errorf("nothing says %q: %s", tc.says, said)
			}
			if now := fake.Live(); now != serving {
				t.Errorf("%d objects, and %d before", now, serving)
			}
			if q := gpuStatus(t, n, 0).GetQuarantine(); q != nil {
				t.Errorf("the device is not lost: %v", q)
			}
		})
	}
}

// TestDriverFaultsDuringLoad: what fails while a model is loaded onto the device is reported, and tried again or elsewhere.
func TestDriverFaultsDuringLoad(t *testing.T) {
	want := expectedOutputs(t)
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
			n, log := startOnFake(t, fake, library, 1, tc.faults)
			waitFor(t, "the fault was met", func() bool { return fake.Unfired() == 0 })
			fake.Reset()
			waitFor(t, "both replicas serve, on whichever GPU", func() bool {
				d, err := n.Deployment(t.Context(), "kjv")
				return err == nil && strings.Count(fmt.Sprint(d.GetReplicas()), "REPLICA_STATE_SERVING") == 2
			})
			if got := completeFour(t, n); got != want {
				t.Errorf("got %v, want %v", got, want)
			}
			if said := log.take(); !strings.Contains(said, tc.says) {
				t.Errorf("nothing says %q: %s", tc.says, said)
			}
			awaitIdle(t, n)
		})
		if left := fake.Live() - live; ok && left != 0 {
			t.Errorf("%s: %d objects were not given back", tc.faults, left)
		}
	}
}

// deviceLossFaults are faults that lose the device.
var deviceLossFaults = []struct{ faults, says string }{
	{"exec:copy@3=214", "CUDA_ERROR_ECC_UNCORRECTABLE"},
	{"exec:kernel@40=719", "CUDA_ERROR_LAUNCH_FAILED"},
	{"exec:kernel@90=700", "CUDA_ERROR_ILLEGAL_ADDRESS"},
	{"cuLaunchKernel@5=999!", "CUDA_ERROR_UNKNOWN"},
}

// TestLastingDriverFaultQuarantines: a fault that lasts, under streams. They go on elsewhere with the tokens that they would have had, and the device
// is quarantined and emptied.
func TestLastingDriverFaultQuarantines(t *testing.T) {
	want := expectedOutputs(t)
	fake, library := fakeGPU(t)
	live := fake.Live()
	for _, tc := range deviceLossFaults {
		ok := t.Run(tc.faults, func(t *testing.T) {
			n, _ := startOnFake(t, fake, library, 1, "")
			awaitServing(t, n, 1, 1)
			fake.Fault(tc.faults)
			if got := completeFour(t, n); got != want {
				t.Errorf("got %v, want %v", got, want)
			}
			if unfired := fake.Unfired(); unfired != 0 {
				t.Fatalf("%d faults were not met", unfired)
			}
			awaitServing(t, n, 0, 2)
			waitFor(t, "the lost GPU is empty",
				func() bool { return len(gpuStatus(t, n, 0).GetLeases()) == 0 && len(n.Residency()[0].Held()) == 0 })
			g := gpuStatus(t, n, 0)
			if q := g.GetQuarantine(); q.GetCause() != messages.QuarantineCause_QUARANTINE_CAUSE_DEVICE_LOST ||
				!strings.Contains(q.GetDetail(), tc.says) {
				t.Errorf("quarantined: %v", q)
			}
			awaitIdle(t, n)
			release := &messages.ReleaseGpuRequest{Node: "test", Name: "gpu-0"}
			if g, err := n.ReleaseGpu(t.Context(), release); err != nil || g.GetQuarantine() != nil {
				t.Fatalf("it is not opened again: %v, %v", g, err)
			}
			deploy(t, n, slow(3))
			awaitServing(t, n, 1, 2)
			if got := completeFour(t, n); got != want {
				t.Errorf("after it was opened again: got %v, want %v", got, want)
			}
		})
		fake.Reset()
		if left := fake.Live() - live; ok && left != 0 {
			t.Errorf("%s: %d objects were not given back", tc.faults, left)
		}
	}
}

// TestOnlyDeviceLost: with nowhere to go, streams end with an error that says why, and the node goes on.
func TestOnlyDeviceLost(t *testing.T) {
	fake, library := fakeGPU(t)
	n, _ := startOnFake(t, fake, library, 0, "")
	awaitServing(t, n, 1)
	fake.Fault(deviceLossFaults[0].faults)
	for i, a := range completeFour(t, n) {
		if a.status != http.StatusServiceUnavailable || !strings.Contains(a.text, deviceLossFaults[0].says) {
			t.Errorf("stream %d: %v", i, a)
		}
	}
	awaitIdle(t, n)
	if state := gpuStatus(t, n, 0).GetState(); state != messages.GpuState_GPU_STATE_QUARANTINED {
		t.Error(state)
	}
}
