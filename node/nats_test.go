package node_test

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"troupe/messages"
	"troupe/node"
	"troupe/testkit"
)

func connect(t *testing.T, n *node.Node) *nats.Conn {
	t.Helper()
	conn, err := nats.Connect(n.NATSURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

func request(t *testing.T, conn *nats.Conn, subject, body string) *nats.Msg {
	t.Helper()
	m, err := conn.Request(subject, []byte(body), time.Minute)
	if err != nil {
		t.Fatalf("%s: %v", subject, err)
	}
	return m
}

func TestControlOverNATS(t *testing.T) {
	n := start(t, nil)
	conn := connect(t, n)
	events, err := conn.SubscribeSync("troupe.v1.events.>")
	if err != nil {
		t.Fatal(err)
	}
	deploy, err := json.Marshal(map[string]any{"deployment": map[string]any{"name": "second", "path": testkit.Model()}})
	if err != nil {
		t.Fatal(err)
	}
	m := request(t, conn, "troupe.v1.models.deploy", string(deploy))
	if m.Header.Get("Nats-Service-Error") != "" || !strings.Contains(string(m.Data), `"replicas":1`) {
		t.Fatalf("%v %s", m.Header, m.Data)
	}
	waitFor(t, "the second model to serve", func() bool {
		return strings.Contains(string(request(t, conn, "troupe.v1.models.get", `{"name":"second"}`).Data),
			`"state":"DEPLOYMENT_STATE_READY"`)
	})
	if m := request(t, conn, "troupe.v1.replicas.list", `{"model":"second"}`); !strings.Contains(string(m.Data),
		`"gpu":"gpu-1"`) {
		t.Errorf("the second model is not on the empty GPU: %s", m.Data)
	}
	if m := request(t, conn, "troupe.v1.gpus.list", ""); strings.Count(string(m.Data), `"kind":"weights"`) != 2 ||
		!strings.Contains(string(m.Data), `"simulated":true`) {
		t.Errorf("%s", m.Data)
	}
	if m := request(t, conn, "troupe.v1.replicas.restart",
		`{"name":"kjv-0"}`); m.Header.Get("Nats-Service-Error") != "" {
		t.Errorf("%v", m.Header)
	}
	waitFor(t, "the second incarnation", func() bool { return replica(t, n, "kjv").GetIncarnation() == 2 })
	if m := request(t, conn, "troupe.v1.tree", `{"format":"text"}`); !strings.Contains(string(m.Data), `kjv-0`) {
		t.Errorf("%s", m.Data)
	}
	request(t, conn, "troupe.v1.models.delete", `{"name":"second"}`)
	waitFor(t, "the second model to be deleted", func() bool {
		return request(t, conn, "troupe.v1.models.get",
			`{"name":"second"}`).Header.Get("Nats-Service-Error-Code") == "404"
	})
	waitFor(t, "its weights to be unused", func() bool {
		gpus := string(request(t, conn, "troupe.v1.gpus.list", "").Data)
		return strings.Count(gpus, `"level":"LEVEL_ACTIVE"`) == 1
	})
	seen := map[string]bool{}
	waitFor(t, "all events", func() bool {
		m, err := events.NextMsg(time.Minute)
		if err != nil {
			t.Fatalf("%v, seen %v", err, seen)
		}
		seen[strings.TrimPrefix(m.Subject, "troupe.v1.events.")] = true
		return seen["model.deployed"] && seen["replica.serving"] && seen["actor.restarted"] && seen["model.deleted"] &&
			seen["replica.stopped"]
	})
}

// answer sends a request that must succeed, and decodes the answer.
func answer[T any, P interface {
	*T
	proto.Message
}](t *testing.T, conn *nats.Conn, subject, body string) P {
	t.Helper()
	m, got := request(t, conn, subject, body), P(new(T))
	if err := protojson.Unmarshal(m.Data, got); err != nil || m.Header.Get("Nats-Service-Error") != "" {
		t.Fatalf("%s %s: %v %s", subject, body, m.Header, m.Data)
	}
	return got
}

func TestNodesOverNATS(t *testing.T) {
	n := start(t, nil)
	conn := connect(t, n)
	nodes := answer[messages.ListNodesResponse](t, conn, "troupe.v1.nodes.list", "").GetNodes()
	if len(nodes) != 1 || nodes[0].GetMember().GetName() != "test" || nodes[0].GetReplicas() != 1 ||
		nodes[0].GetDraining() ||
		len(nodes[0].GetGpus()) != 2 ||
		nodes[0].GetGpus()[1].GetNode() != "test" ||
		nodes[0].GetMember().GetGpus()[1] != "gpu-1" {
		t.Errorf("%v", nodes)
	}
	own := answer[messages.NodeStatusResponse](t, conn, "troupe.v1.node.test.status", "").GetNode()
	if own.GetReplicas() != 1 {
		t.Errorf("%v", own)
	}
	if root := answer[messages.NodeTreeResponse](t, conn, "troupe.v1.node.test.tree",
		"").GetRoot(); root.GetName() != "test" ||
		root.GetId() != "node" {
		t.Errorf("%v", root)
	}
	roots := answer[messages.TreeResponse](t, conn, "troupe.v1.tree", `{"node":"test"}`).GetRoots()
	if len(roots) != 1 || len(roots[0].GetChildren()) < 5 {
		t.Errorf("%v", roots)
	}
	drained := answer[messages.DrainNodeResponse](t, conn, "troupe.v1.nodes.drain", `{"name":"test"}`).GetNode()
	if !drained.GetDraining() || drained.GetDetail() == "" {
		t.Errorf("%v", drained)
	}
	if back := answer[messages.UndrainNodeResponse](t, conn, "troupe.v1.nodes.undrain",
		`{"name":"test"}`).GetNode(); back.GetDraining() ||
		back.GetDetail() != "" {
		t.Errorf("%v", back)
	}
}

func TestScaleOverNATS(t *testing.T) {
	n := start(t, nil)
	conn := connect(t, n)
	if s := answer[messages.ScaleModelResponse](t, conn, "troupe.v1.models.scale",
		`{"name":"kjv","replicas":2}`); s.GetDeployment().GetMaxReplicas() != 2 || s.GetRevision() < 2 {
		t.Errorf("%v", s)
	}
	serving := func(want int) func() bool {
		return func() bool {
			m := answer[messages.GetModelResponse](t, conn, "troupe.v1.models.get", `{"name":"kjv"}`).GetModel()
			return m.GetState() == messages.DeploymentState_DEPLOYMENT_STATE_READY && len(m.GetReplicas()) == want
		}
	}
	waitFor(t, "two replicas", serving(2))
	answer[messages.ScaleModelResponse](t, conn, "troupe.v1.models.scale", `{"name":"kjv","replicas":1}`)
	waitFor(t, "one replica", serving(1))
}

func TestControlRefusals(t *testing.T) {
	n := start(t, nil)
	conn := connect(t, n)
	for name, tc := range map[string]struct{ subject, body, code, want string }{
		"malformed":     {"models.deploy", `{"deployment":`, "400", "unexpected EOF"},
		"unknown field": {"models.get", `{"nom":"a"}`, "400", `unknown field "nom"; the request takes name`},
		"unknown adapter": {"kv.pin",
			`{"model":"kjv","adapter":"zz","tokens":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]}`, "404",
			`has no adapter "zz"`},
		"no deployment": {"models.deploy", ``, "400", "deployment is missing"},
		"bad name": {"models.deploy", `{"deployment":{"name":"A b","path":"x"}}`, "400",
			`deployment.name "A b"`},
		"no folder": {"models.deploy", `{"deployment":{"name":"a","path":"/nowhere"}}`, "400",
			"/nowhere: no config.json"},
		"too many": {"models.deploy", `{"deployment":{"name":"a","path":"x","replicas":100000}}`, "400",
			"deployment.replicas is 100000"},
		"unknown model":   {"models.get", `{"name":"none"}`, "404", `model "none" is not deployed`},
		"delete unknown":  {"models.delete", `{"name":"none"}`, "404", `model "none" is not deployed`},
		"unknown replica": {"replicas.restart", `{"name":"none-0"}`, "404", "no replica none-0"},
		"scale to none":   {"models.scale", `{"name":"kjv"}`, "400", "replicas is missing; send"},
		"scale unknown":   {"models.scale", `{"name":"none","replicas":2}`, "404", `model "none" is not deployed`},
		"out of bounds": {"models.deploy",
			`{"deployment":{"name":"a","path":"x","replicas":5,"max_replicas":4}}`, "400", "max_replicas 4"},
		"migrate nothing": {"replicas.migrate", ``, "400", "from is missing"},
		"migrate to self": {"replicas.migrate", `{"from":"kjv-0","to":"kjv-0"}`, "400", "from and to are both kjv-0"},
		"migrate unknown": {"replicas.migrate", `{"from":"kjv-9"}`, "404", "no replica kjv-9"},
		"migrate nowhere": {"replicas.migrate", `{"from":"kjv-0"}`, "503", "model kjv has no other serving replica"},
		"explain unknown": {"explain.cmpl-none", ``, "404", `no node remembers a request "none"`},
		"drain unknown": {"nodes.drain", `{"name":"none"}`, "404",
			`node "none" is not in the cluster; there are: test`},
		"drain nothing": {"nodes.drain", ``, "400", "name is missing"},
		"unknown node": {"tree", `{"node":"none"}`, "404",
			`node "none" is not in the cluster; its members are: test`},
		"unknown format": {"tree", `{"format":"svg"}`, "400", "format svg"},
		"pin nothing":    {"kv.pin", ``, "400", "send a model and one of prompt, messages and tokens"},
		"pin twofold": {"kv.pin", `{"model":"kjv","prompt":"a","tokens":[1]}`, "400",
			"one of prompt, messages and tokens"},
		"pin too little": {"kv.pin", `{"model":"kjv","prompt":"a"}`, "400",
			"fewer than the 16 of a KV block of kjv"},
		"pin strangers": {"kv.pin", `{"model":"kjv","tokens":[5000]}`, "400",
			"token 5000 is not in the model's vocabulary"},
		"pin too long": {"kv.pin", `{"model":"kjv","prompt":"` + strings.Repeat("begat ", 1024) + `"}`, "400",
			"the model's context is 1024: no prompt can begin with it"},
		"pin too many": {"kv.pin", `{"model":"kjv","tokens":[5` + strings.Repeat(",5", 1023) + `]}`, "400",
			"the prefix has 1024 tokens, and the model's context is 1024"},
		"pin a bad name": {"kv.pin", `{"model":"kjv","name":"A b","tokens":[5,5,5,5,5,5,5,5,5,5,5,5,5,5,5,5]}`,
			"400", `name "A b"`},
		"pin unknown":   {"kv.pin", `{"model":"none","prompt":"a"}`, "404", `model "none" is not deployed`},
		"unpin unknown": {"kv.unpin", `{"name":"none"}`, "404", `no prefix is pinned as "none"`},
		"kv of no node": {"kv.stats", `{"node":"none"}`, "404",
			`node "none" is not in the cluster; its members are: test`},
		"flush no tier":   {"kv.flush", `{"tier":"tape"}`, "404", `no tier "tape"`},
		"offload nothing": {"kv.offload", `{"replica":"none-0"}`, "404", "no such replica"},
		"infer unknown":   {"infer.none", `a`, "404", `model "none" is not deployed`},
		"infer malformed": {"infer.kjv", `{"prompt":`, "400", "not valid JSON"},
		"infer too long":  {"infer.kjv", `{"prompt":"a","max_tokens":5000}`, "400", "context is 1024"},
	} {
		m := request(t, conn, "troupe.v1."+tc.subject, tc.body)
		var e struct{ Reason, Error string }
		if err := json.Unmarshal(m.Data, &e); err != nil || m.Header.Get("Nats-Service-Error-Code") != tc.code ||
			!strings.Contains(e.Error, tc.want) || !strings.Contains(m.Header.Get("Nats-Service-Error"), tc.want) ||
			!strings.HasPrefix(e.Reason, "REASON_") {
			t.Errorf("%s: %v %s", name, m.Header, m.Data)
		}
	}
	m := request(t, conn, "troupe.v1.models.deploy",
		`{"deployment":{"name":"kjv","path":"`+testkit.Model()+`"},"if_revision":"99"}`)
	if m.Header.Get("Nats-Service-Error-Code") != "409" {
		t.Errorf("a stale revision: %v %s", m.Header, m.Data)
	}
}

// TestInferOverNATS checks that a stream over NATS gives the golden output, and its first chunk before
// the last token is computed.
func TestInferOverNATS(t *testing.T) {
	n, gate := startGated(t, 4)
	conn := connect(t, n)
	g := goldens(t)[0]
	body, err := json.Marshal(map[string]any{
		"prompt": g.Prompt, "max_tokens": len(g.OutputIDs), "temperature": 0, "format": "text",
	})
	if err != nil {
		t.Fatal(err)
	}
	inbox := conn.NewInbox()
	sub, err := conn.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.PublishRequest("troupe.v1.infer.kjv", inbox, body); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	chunks := 0
	for {
		m, err := sub.NextMsg(time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Data) == 0 {
			break
		}
		if chunks++; chunks == 1 {
			gate.open() // the first chunk has come before the later steps
		}
		text.Write(m.Data)
	}
	if text.String() != g.Text || chunks < 2 { // tokens that are delivered together share a chunk
		t.Errorf("%d chunks: %q, want %q", chunks, text.String(), g.Text)
	}
}

// TestNATSCommandLine runs the nats command line, if make nats has built it or it is installed.
func TestNATSCommandLine(t *testing.T) {
	bin := filepath.Join(testkit.Root(), ".bin", "nats")
	if _, err := exec.LookPath(bin); err != nil {
		if bin, err = exec.LookPath("nats"); err != nil {
			t.Skip("needs the nats command line; `make nats` builds it")
		}
	}
	n := start(t, nil)
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"micro", "ls"}, "troupe"},
		{[]string{"micro", "info", "troupe"}, "troupe.v1.models.deploy"},
		{[]string{"micro", "stats", "troupe"}, "models-list"},
		{[]string{"micro", "ping", "troupe"}, "troupe"},
		{[]string{"req", "--raw", "troupe.v1.models.list", ""}, `"state":"DEPLOYMENT_STATE_READY"`},
		{[]string{"req", "--raw", "--wait-for-empty", "troupe.v1.infer.kjv",
			`{"prompt":"In the beginning","temperature":0,"max_tokens":4,"format":"text"}`}, "LORD"},
		{[]string{"req", "--raw", "troupe.v1.nodes.list", ""}, `"name":"test"`},
		{[]string{"micro", "info", "troupe"}, "troupe.v1.node.test.status"},
		{[]string{"kv", "ls", "troupe"}, "deployments.kjv"},
	} {
		out, err := exec.CommandContext(t.Context(), bin, append([]string{"--server", n.NATSURL()}, tc.args...)...).
			CombinedOutput()
		if err != nil || !strings.Contains(string(out), tc.want) {
			t.Errorf("nats %v: %v\n%s", tc.args, err, out)
		}
	}
}
