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
	"troupe/messages"
	"troupe/node"
	"troupe/testkit"
)

// heldFormat reads models, and holds the reading of one folder as a file system that hangs does.
type heldFormat struct {
	engine.Loader
	*heldFolder
}

type heldFolder struct {
	path    string
	inspect bool // hold Inspect; else Load
	entered chan struct{}
	once    sync.Once
	pass    chan struct{}
}

func (f *heldFolder) hold() {
	f.once.Do(func() { close(f.entered) })
	<-f.pass
}

func (f heldFormat) Inspect(path string, info cuda.Info) (engine.ModelInfo, error) {
	if f.inspect && path == f.path {
		f.hold()
	}
	return f.Loader.Inspect(path, info)
}

func (f heldFormat) Load(ctx context.Context, d cuda.Device, path string) (engine.Weights, error) {
	if !f.inspect && path == f.path {
		f.hold()
	}
	return f.Loader.Load(ctx, d, path)
}

// TestHungFolderStopsNoMember: while the inspection or the load of a model's folder hangs, nodes stay members and
// renew their leases, they answer, and another model serves through each of them.
func TestHungFolderStopsNoMember(t *testing.T) {
	for name, inspect := range map[string]bool{"inspection": true, "load": false} {
		t.Run(name, func(t *testing.T) {
			held := &heldFolder{path: copied(t, testkit.Model(), nil), inspect: inspect,
				entered: make(chan struct{}), pass: make(chan struct{})}
			nodes := together(t, 2, func(_ int, c *node.Config) {
				c.WrapFormat = func(f engine.Loader) engine.Loader { return heldFormat{f, held} }
			})
			open := sync.OnceFunc(func() { close(held.pass) })
			t.Cleanup(open) // before the nodes are told to stop
			spec := kjv(1)
			deploy(t, nodes[0], spec)
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
			before := memberIDs(t, conn)
			renewed(t, conn, 3)
			for _, n := range nodes {
				alive(t, n)
				c := complete(t, n, map[string]any{"model": "kjv", "prompt": "In the beginning", "max_tokens": 8})
				if len(c.Choices) != 1 {
					t.Errorf("%s: %+v", n.Member().GetName(), c)
				}
			}
			renewed(t, conn, 3)
			if after := memberIDs(t, conn); after != before || strings.Count(after, ",") != len(nodes) {
				t.Errorf("members were %s and are %s", before, after)
			}
			open()
			if m := <-answer; m == nil || m.Header.Get("Nats-Service-Error") != "" {
				t.Errorf("the deployment ends with %v", m)
			}
		})
	}
}

// alive checks that a node answers without asking anything of others.
func alive(t *testing.T, n *node.Node) {
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

// memberIDs are the members, each with the life that it is in.
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

// renewed waits until every member has renewed its key so many times.
func renewed(t *testing.T, conn *nats.Conn, times uint64) {
	t.Helper()
	before := map[string]uint64{}
	for _, e := range memberKeys(t, conn) {
		before[e.Key()] = e.Revision()
	}
	until(t, "renewals of every member", func() bool {
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
			continue // a lease
		}
		if e, err := bucket.Get(key); err == nil {
			all = append(all, e)
		}
	}
	return all
}
