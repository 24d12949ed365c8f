package node_test

import (
	"net/http"
	"strings"
	"testing"

	"troupe/messages"
	"troupe/testkit"
)

// TestUtilization checks that served requests show in the utilization of their device: in gpus.list of each node of a
// cluster and in /metrics of the node that has it, and that the other device is not used.
func TestUtilization(t *testing.T) {
	nodes := startCluster(t, 2, nil)
	deploy(t, nodes[0], kjvSpec(1))
	gpus := func(at int) map[string]*messages.GpuUtilization {
		all := make(map[string]*messages.GpuUtilization)
		list := answer[messages.ListGpusResponse](t, connect(t, nodes[at]), "troupe.v1.gpus.list", `{}`)
		for _, g := range list.GetGpus() {
			all[g.GetNode()] = g.GetUtilization()
		}
		return all
	}
	d, err := nodes[0].Backend().Deployment(t.Context(), "kjv")
	if err != nil || len(d.GetReplicas()) != 1 {
		t.Fatalf("%v, %v", d, err)
	}
	busy := d.GetReplicas()[0].GetNode()
	for at := range nodes {
		var used map[string]*messages.GpuUtilization
		testkit.Until(t, "steps count for their device", func() bool {
			if _, ok := greedyText(t, nodes[at]); !ok {
				return false
			}
			used = gpus(at)
			return used[busy].GetFlopsPerSecond() > 0
		})
		for name, u := range used {
			if u == nil || u.GetPeakSource() != "measured" || u.GetPeakFlopsPerSecond() <= 0 || u.Utilization == nil {
				t.Fatalf("%s: %v", name, u)
			}
			if name != busy && (u.GetTimeShare() != 0 || u.GetUtilization() != 0 || u.RooflineShare != nil) {
				t.Errorf("%s runs nothing: %v", name, u)
			}
		}
		u := used[busy]
		if u.GetTimeShare() <= 0 || u.GetRooflineShare() <= 0 || u.GetBytesPerSecond() <= 0 ||
			u.GetUtilization() != u.GetTimeShare()*u.GetRooflineShare() {
			t.Errorf("%s: %v", busy, u)
		}
		body := getBody(t, nodes[at], "/metrics")
		for _, family := range []string{"utilization", "time_share", "flops_per_second", "peak_bytes_per_second"} {
			if !strings.Contains(body, "troupe_device_"+family+`{gpu="gpu-0"`) {
				t.Errorf("no troupe_device_%s in /metrics", family)
			}
		}
		if strings.Contains(body, "troupe_device_nvml") {
			t.Error("a software device has figures of NVML in /metrics")
		}
	}
}

// TestAdapterUses checks the figures of adapters over all nodes: those of requests at both gateways, of a load, and of
// an adapter that was not used.
func TestAdapterUses(t *testing.T) {
	nodes := startCluster(t, 2, nil)
	deploy(t, nodes[0], kjvSpec(1), nodes[1])
	conn := connect(t, nodes[1])
	const on = "troupe.v1.adapters."
	var registered *messages.AdapterSpec
	for _, name := range []string{"psalms", "shout"} {
		a := answer[messages.RegisterAdapterResponse](t, conn, on+"register", registerBody(name, adapterDir(name)))
		if name == "psalms" {
			registered = a.GetAdapter()
		}
	}
	for _, n := range nodes {
		testkit.Until(t, "the gateway knows the adapter", func() bool {
			status, _ := post(t, n, "/v1/completions",
				map[string]any{"model": "psalms", "prompt": "The LORD is", "max_tokens": 4})
			return status == http.StatusOK
		})
	}
	var use *messages.AdapterUse
	testkit.Until(t, "a replica reports that it has the adapter, and no users", func() bool {
		got := answer[messages.AdapterResponse](t, conn, on+"get", `{"name":"psalms"}`)
		if use = got.GetUse(); len(got.GetMissing()) > 0 {
			t.Fatalf("no answer of %v", got.GetMissing())
		}
		return use.GetOnGpu() == 1 && use.GetUsers() == 0
	})
	if use.GetSequences() != 2 || use.GetLoads() != 1 || use.GetBytes() != registered.GetBytes() ||
		!use.GetLastUsed().AsTime().After(registered.GetRegistered().AsTime()) {
		t.Errorf("%v", use)
	}
	for _, n := range nodes {
		list := answer[messages.ListAdaptersResponse](t, connect(t, n), on+"list", `{}`)
		if all := list.GetUses(); len(all) != 2 || all[0].GetSequences() != 2 || all[0].GetName() != "psalms" ||
			all[1].GetSequences() != 0 || all[1].LastUsed != nil {
			t.Errorf("%v", list)
		}
		if body := getBody(t, n, "/metrics"); !strings.Contains(body,
			`troupe_gateway_adapter_sequences_total{model="kjv"} 1`) {
			t.Error("the sequences with an adapter are not in /metrics")
		}
	}
}
