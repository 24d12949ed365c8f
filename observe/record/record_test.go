package record

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"troupe/internal/recorder"
	"troupe/messages"
	"troupe/recording"
)

// fixture is a cluster of one node, which may be started again, or not answer.
type fixture struct {
	*Recorder
	node   *recorder.Recorder
	silent bool
	file   bytes.Buffer
}

func newNode() *recorder.Recorder {
	return recorder.New("n", time.Now, func() []byte { return []byte("secret") })
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{node: newNode()}
	f.Recorder = &Recorder{Ask: f.ask, Out: recording.NewWriter(&f.file), id: "test", began: time.Now()}
	header, snapshot := recording.Header{Version: 1}, recording.Snapshot{Nodes: []recording.Node{{Name: "n"}}}
	for _, l := range []recording.Line{{Header: &header}, {Snapshot: &snapshot}} {
		if err := f.Out.Write(l); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.findNodes(t.Context()); err != nil || len(f.nodes) != 1 {
		t.Fatal(err)
	}
	return f
}

func (f *fixture) ask(_ context.Context, endpoint string, request, answer proto.Message) error {
	switch req := request.(type) {
	case *messages.ListNodesRequest:
		answer.(*messages.ListNodesResponse).Nodes = []*messages.NodeStatus{{Member: &messages.Member{Name: "n"}}}
		return nil
	case *messages.NodeRecordRequest:
		if f.silent {
			return errors.New("no answer")
		}
		if req.GetBegin() {
			if err := f.node.Begin(req.GetRecording(), req.GetElapsed().AsDuration()); err != nil {
				return err
			}
		}
		b, err := f.node.Read(req.GetRecording(), req.GetAfter())
		to := answer.(*messages.NodeRecordResponse)
		to.Lines, to.Last, to.Lost, to.More = b.Lines, b.Last, b.Lost, b.More
		return err
	}
	return errors.New(endpoint)
}

// step asks the node once and writes what it answers.
func (f *fixture) step(t *testing.T) {
	t.Helper()
	f.poll(t.Context(), false)
	if err := f.write(); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) request(id string) {
	f.node.Request(time.Now(), recording.Request{ID: id, End: "stop"}, "", nil)
}

// read returns the recording, with the requests by ID.
func (f *fixture) read(t *testing.T) (*recording.Recording, string) {
	t.Helper()
	if err := f.Out.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := recording.Read(&f.file, "test")
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, q := range r.Requests {
		ids = append(ids, q.ID)
	}
	return r, strings.Join(ids, " ")
}

// TestEachLineOnce checks that lines are written once, although an answer is lost, and that a node that was started
// again is recorded from then on.
func TestEachLineOnce(t *testing.T) {
	f := newFixture(t)
	f.step(t)
	f.request("a")
	f.step(t)
	f.request("b")
	f.silent = true
	f.step(t)
	f.silent = false
	f.request("c")
	f.step(t)
	f.step(t)
	f.node = newNode()
	f.step(t) // the node does not know the recording
	f.step(t)
	f.request("d")
	f.step(t)
	r, ids := f.read(t)
	if ids != "a b c d" || len(r.Lost) != 1 || !strings.Contains(r.Lost[0].Why, "was started again") {
		t.Errorf("requests %s, lost %+v", ids, r.Lost)
	}
}

// TestLost checks that lines which had no room on the node are counted, and that a node which does not answer for long
// is named once.
func TestLost(t *testing.T) {
	f := newFixture(t)
	f.step(t)
	for range recorder.MaxBytes>>20 + 2 {
		f.request(strings.Repeat("x", 1<<20))
	}
	f.step(t)
	f.step(t)
	f.silent, f.nodes[0].heard = true, time.Now().Add(-silentAfter-time.Second)
	f.step(t)
	f.step(t)
	r, _ := f.read(t)
	if f.stats.Lost != 3 || len(r.Lost) != 2 || r.Lost[0].Lines != 3 ||
		r.Lost[1].Why != "the node does not answer: no answer" || len(r.Requests) != recorder.MaxBytes>>20-1 {
		t.Errorf("%d lost, %d requests, %+v", f.stats.Lost, len(r.Requests), r.Lost)
	}
}
