package node_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/encoding/protojson"

	"troupe/cuda"
	"troupe/engine"
	"troupe/engine/llama"
	"troupe/messages"
	"troupe/modelfile/digest"
	"troupe/node"
	"troupe/testkit"
)

// hangingLoader is a loader for which one folder is on a file system that hangs.
type hangingLoader struct {
	llama.Loader
	*hangingFolder
}

type hangingFolder struct {
	path    string
	inspect bool // Inspect hangs; else Load
	entered chan struct{}
	once    sync.Once
	pass    chan struct{}
}

func (f *hangingFolder) hold() {
	f.once.Do(func() { close(f.entered) })
	<-f.pass
}

func (f hangingLoader) Inspect(path string, info cuda.Info) (engine.ModelInfo, error) {
	if f.inspect && path == f.path {
		f.hold()
	}
	return f.Loader.Inspect(path, info)
}

func (f hangingLoader) Load(ctx context.Context, d cuda.Device, path string) (engine.Weights, error) {
	if !f.inspect && path == f.path {
		f.hold()
	}
	return f.Loader.Load(ctx, d, path)
}

// TestHungFolderKeepsMembers checks that, while the inspection or load of a folder hangs, nodes
// renew their memberships and leases, answer requests and serve another model.
func TestHungFolderKeepsMembers(t *testing.T) {
	for name, inspect := range map[string]bool{"inspection": true, "load": false} {
		t.Run(name, func(t *testing.T) {
			held := &hangingFolder{path: copyWithFiles(t, testkit.Model(), nil), inspect: inspect,
				entered: make(chan struct{}), pass: make(chan struct{})}
			nodes := startCluster(t, 2, func(_ int, c *node.Config) {
				c.Loader = hangingLoader{llama.Loader{Roots: c.Roots, Digests: &digest.Cache{}}, held}
			})
			open := sync.OnceFunc(func() { close(held.pass) })
			t.Cleanup(open) // before the nodes stop
			spec := kjvSpec(1)
			deploy(t, nodes[0], spec, nodes[1])
			conn := connect(t, nodes[0])
			answer := make(chan *nats.Msg, 1)
			go func() {
				m, err := conn.Request("troupe.v1.models.deploy",
					fmt.Appendf(nil, `{"deployment":{"name":"hostile","path":%q}}`, held.path), time.Minute)
				if err != nil {
					t.Error(err)
				}
				answer <- m
			}()
			select {
			case <-held.entered:
			case <-t.Context().Done():
				t.Fatal("the folder was not read")
			}
			// On a busy machine a member may expire once for another reason. One that waits for the
			// folder is never renewed.
			waitFor(t, "renewals of the same members", func() bool {
				before := memberIDs(t, conn)
				awaitRenewals(t, conn, 3)
				for _, n := range nodes {
					checkAlive(t, n)
					c := complete(t, n, map[string]any{"model": "kjv", "prompt": "In the beginning", "max_tokens": 8})
					if len(c.Choices) != 1 {
						t.Errorf("%s: %+v", n.Member().GetName(), c)
					}
				}
				awaitRenewals(t, conn, 3)
				return memberIDs(t, conn) == before && strings.Count(before, ",") == len(nodes)
			})
			open()
			if m := <-answer; m == nil || m.Header.Get("Nats-Service-Error") != "" {
				t.Errorf("the deployment ends with %v", m)
			}
		})
	}
}

// checkAlive checks that a node answers a probe.
func checkAlive(t *testing.T, n *node.Node) {
	t.Helper()
	res, err := http.Get("http://" + n.HTTPAddr() + "/health")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if text, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("%s: %s %s, %v", n.Member().GetName(), res.Status, text, err)
	}
}

// memberIDs returns the IDs of all members.
func memberIDs(t *testing.T, conn *nats.Conn) (ids string) {
	t.Helper()
	for _, e := range memberKeys(t, conn) {
		m := &messages.Member{}
		if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(e.Value(), m); err != nil {
			t.Fatal(err)
		}
		ids += m.GetId() + ","
	}
	return ids
}

// awaitRenewals waits until every member has renewed its key the given number of times.
func awaitRenewals(t *testing.T, conn *nats.Conn, times uint64) {
	t.Helper()
	before := map[string]uint64{}
	for _, e := range memberKeys(t, conn) {
		before[e.Key()] = e.Revision()
	}
	waitFor(t, "renewals of every member", func() bool {
		for _, e := range memberKeys(t, conn) {
			if e.Revision() < before[e.Key()]+times {
				return false
			}
		}
		return true
	})
}

func memberKeys(t *testing.T, conn *nats.Conn) (all []nats.KeyValueEntry) {
	t.Helper()
	js, err := conn.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	bucket, err := js.KeyValue("troupe-members")
	if err != nil {
		t.Fatal(err)
	}
	keys, err := bucket.Keys()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(keys)
	for _, key := range keys {
		if !strings.HasPrefix(key, "members.") {
			continue // of a lease
		}
		if e, err := bucket.Get(key); err == nil {
			all = append(all, e)
		}
	}
	return all
}
