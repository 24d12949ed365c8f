package node_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/encoding/protojson"

	"troupe/messages"
	"troupe/node"
	"troupe/testkit"
)

const onAdapters = "troupe.v1.adapters."

// registerShipped registers the shipped model's adapters.
func registerShipped(t *testing.T, conn *nats.Conn) {
	t.Helper()
	for _, name := range shipped[1:] {
		answer[messages.RegisterAdapterResponse](t, conn, onAdapters+"register", registerBody(name, adapterDir(name)))
	}
}

// completeGolden requests a golden from a model. It returns the status, the text or error, and the
// request ID.
func completeGolden(t *testing.T, n *node.Node, model string, g testkit.Golden) (int, string, string) {
	status, body := post(t, n, "/v1/completions",
		map[string]any{"model": model, "prompt": g.Prompt, "max_tokens": len(g.OutputIDs), "temperature": 0})
	var c struct {
		ID      string
		Choices []struct{ Text string }
	}
	if json.Unmarshal(body, &c) != nil || len(c.Choices) != 1 {
		return status, string(body), ""
	}
	return status, c.Choices[0].Text, strings.TrimPrefix(c.ID, "cmpl-")
}

func adapterStats(t *testing.T, conn *nats.Conn) *messages.AdapterStatsResponse {
	t.Helper()
	got := &messages.AdapterStatsResponse{}
	if err := protojson.Unmarshal(request(t, conn, onAdapters+"stats", "").Data, got); err != nil {
		t.Fatal(err)
	}
	return got
}

// TestAdaptersByName requests each adapter by its short and its full name, from all nodes and
// concurrently, and checks the golden outputs. Route decisions must name the adapter, and the
// adapters must stay usable after restarts of the replicas.
func TestAdaptersByName(t *testing.T) {
	nodes := startCluster(t, 2, nil)
	deploy(t, nodes[0], kjvSpec(2), nodes[1])
	conn := connect(t, nodes[1])
	registerShipped(t, conn)
	waitFor(t, "both nodes to know the adapters",
		func() bool {
			return len(nodes[0].Backend().Adapters("kjv")) == 3 && len(nodes[1].Backend().Adapters("kjv")) == 3
		})
	check := func(n *node.Node, adapter, model string, g testkit.Golden) string {
		status, text, id := completeGolden(t, n, model, g)
		if status != http.StatusOK || text != g.Text {
			t.Errorf("%s: %d %q, want %q", model, status, text, g.Text)
		}
		return id
	}
	everything := func() {
		var asked sync.WaitGroup
		for i, adapter := range shipped {
			for j, g := range adapterGoldens(t, adapter)[:2] {
				model := []string{adapter, "kjv:" + adapter}[j%2]
				if adapter == "" {
					model = "kjv"
				}
				asked.Go(func() { check(nodes[(i+j)%2], adapter, model, g) })
			}
		}
		asked.Wait()
	}
	everything()
	waitFor(t, "a request that is routed to a replica with its adapter", func() bool {
		id := check(nodes[0], "psalms", "psalms", adapterGoldens(t, "psalms")[0])
		why := answer[messages.ExplainResponse](t, conn, "troupe.v1.explain."+id, "").GetDecisions()[0]
		if !strings.Contains(why.GetWhy(), "adapter psalms@") {
			t.Fatal(why.GetWhy())
		}
		return strings.Contains(why.GetWhy(), "on its GPU")
	})
	waitFor(t, "the replicas to report their adapters", func() bool { return adapterStats(t, conn).GetOnGpu() >= 3 })
	for name := range placements(t, nodes[0]) {
		answer[messages.RestartReplicaResponse](t, conn, "troupe.v1.replicas.restart", `{"name":"`+name+`"}`)
	}
	everything()
}

// TestPinnedAdapterIsOnEveryReplica checks that an adapter is on the device of every replica from
// its pin to its unpin, even without requests for it and after a restart of the replica.
func TestPinnedAdapterIsOnEveryReplica(t *testing.T) {
	nodes := startCluster(t, 2, nil)
	deploy(t, nodes[0], kjvSpec(2))
	conn := connect(t, nodes[0])
	registerShipped(t, conn)
	pinned := func() (n int) {
		for _, a := range adapterStats(t, conn).GetAdapters() {
			for _, p := range a.GetReplicas() {
				if a.GetName() == "psalms" && p.GetPinned() &&
					p.GetLocation() == messages.AdapterLocation_ADAPTER_LOCATION_GPU &&
					p.GetSequences() == 0 {
					n++
				}
			}
		}
		return n
	}
	answer[messages.AdapterResponse](t, conn, onAdapters+"pin", `{"name":"psalms"}`)
	waitFor(t, "psalms on both replicas", func() bool { return pinned() == 2 })
	answer[messages.RestartReplicaResponse](t, conn, "troupe.v1.replicas.restart", `{"name":"kjv-0"}`)
	waitFor(t, "the restarted replica to have psalms", func() bool {
		d, err := nodes[0].Backend().Deployment(t.Context(), "kjv")
		return err == nil && d.GetReplicas()[0].GetIncarnation() == 2 && pinned() == 2
	})
	body := strings.Replace(registerBody("psalms", adapterDir("psalms")), `"model":"kjv"`,
		`"model":"kjv","pinned":true`, 1)
	again := answer[messages.RegisterAdapterResponse](t, conn, onAdapters+"register", body).GetAdapter()
	waitFor(t, "the new revision on both replicas, and the old one on none", func() bool {
		all := adapterStats(t, conn).GetAdapters()
		return pinned() == 2 && len(all) == 1 && all[0].GetRevision() == again.GetRevision()
	})
	answer[messages.AdapterResponse](t, conn, onAdapters+"unpin", `{"name":"psalms"}`)
	waitFor(t, "psalms to be unpinned", func() bool { return pinned() == 0 })
}

// TestDeletedAdapterFinishesRequests checks that requests in flight get the whole output when their
// adapter is deleted, that new ones are refused at once, and that the adapter is unloaded after the
// last one.
func TestDeletedAdapterFinishesRequests(t *testing.T) {
	n, g := startGated(t, 5)
	conn := connect(t, n)
	registerShipped(t, conn)
	const body = `{"model":"shout","prompt":"In the beginning","max_tokens":300,"temperature":0,"stream":true,` +
		`"ignore_eos":true,"stream_options":{"include_usage":true}}`
	running, err := http.Post("http://"+n.HTTPAddr()+"/v1/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer running.Body.Close()
	first := make([]byte, 64)
	if _, err := running.Body.Read(first); err != nil || running.StatusCode != http.StatusOK {
		t.Fatalf("%d, %v", running.StatusCode, err)
	}
	answer[messages.AdapterResponse](t, conn, onAdapters+"delete", `{"name":"shout"}`)
	if status, text, _ := completeGolden(t, n, "shout", adapterGoldens(t, "shout")[0]); status != http.StatusNotFound {
		t.Errorf("a request after the deletion: %d %s", status, text)
	}
	waitFor(t, "the adapter to be shown as deleted and in use", func() bool {
		all := adapterStats(t, conn).GetAdapters()
		return len(all) == 1 && all[0].GetDeleted() && all[0].GetSequences() == 1
	})
	g.open()
	rest := new(strings.Builder)
	if _, err := io.Copy(rest, running.Body); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(strings.TrimSpace(rest.String()), "[DONE]") ||
		!strings.Contains(rest.String(), `"completion_tokens":300`) {
		t.Errorf("the stream ends with %q", rest.String()[max(0, rest.Len()-400):])
	}
	waitFor(t, "the adapter to be unloaded", func() bool { return len(adapterStats(t, conn).GetAdapters()) == 0 })
}
