package record

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"troupe/internal/recorder"
	"troupe/messages"
	"troupe/observe/top"
	"troupe/recording"
)

const (
	pollEvery    = 250 * time.Millisecond
	membersEvery = 2 * time.Second // between two questions for nodes that have joined
	sampleEvery  = 10 * time.Second
	endTimeout   = 5 * time.Second // for the last lines of all nodes
	silentAfter  = recorder.Idle   // then a node has ended the recording
)

type message = proto.Message

// Recorder records a cluster.
type Recorder struct {
	Ask      top.Ask
	Events   <-chan *messages.Event // nil: events are not recorded
	Out      *recording.Writer
	Troupe   string                // version of the program
	Profiles []string              // costs, in YAML
	Progress func(done Statistics) // called now and then; nil: it is not

	id       string
	began    time.Time
	nodes    []*node
	membered time.Time // when the nodes were last asked for
	stats    Statistics
}

// Statistics count what was recorded.
type Statistics struct {
	Took                                    time.Duration
	Nodes, Lines, Requests, Decisions, Open int
	Lost                                    uint64
}

// node is a node that takes part.
type node struct {
	name    string
	begun   bool
	heard   time.Time // when it last answered
	silent  bool      // that it does not answer was written
	last    uint64
	lost    uint64
	open    int
	answers []*messages.NodeRecordResponse
	err     error
}

// Run records until ctx ends, and then writes the last line. A node that does not answer is left out until it does.
// It returns an error if no node can be asked or the file cannot be written.
func (r *Recorder) Run(ctx context.Context) (Statistics, error) {
	r.id, r.began = rand.Text(), time.Now()
	header := recording.Header{Version: recording.Version, Began: r.began.UTC(), Troupe: r.Troupe}
	if err := r.Out.Write(recording.Line{Header: &header}); err != nil {
		return r.stats, err
	}
	if err := r.findNodes(ctx); err != nil {
		return r.stats, err
	}
	r.poll(ctx, false)
	if err := r.firstError(); err != nil {
		return r.stats, err
	}
	s, err := r.snapshot(ctx)
	if err != nil {
		return r.stats, err
	}
	if err := r.Out.Write(recording.Line{Snapshot: &s}); err != nil {
		return r.stats, err
	}
	if err := r.follow(ctx); err != nil {
		return r.stats, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	return r.stats, r.end(ctx)
}

// follow writes what is recorded until ctx ends.
func (r *Recorder) follow(ctx context.Context) error {
	next, sample := time.NewTicker(pollEvery), time.NewTicker(sampleEvery)
	defer next.Stop()
	defer sample.Stop()
	for {
		if err := r.write(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case e := <-r.Events:
			if err := r.event(e); err != nil {
				return err
			}
		case <-sample.C:
			if err := errors.Join(r.sample(ctx), r.Out.Flush()); err != nil {
				return err
			}
		case <-next.C:
			if time.Since(r.membered) > membersEvery {
				_ = r.findNodes(ctx) // the nodes that are known go on
			}
			r.poll(ctx, false)
		}
	}
}

// sample writes the totals of replicas, if the cluster answers.
func (r *Recorder) sample(ctx context.Context) error {
	all := &messages.ListModelsResponse{}
	if err := r.ask(ctx, "models.list", &messages.ListModelsRequest{}, all); err != nil {
		return nil
	}
	sample := recording.Sample{At: r.elapsed(), Replicas: replicasOf(all.GetModels())}
	return r.Out.Write(recording.Line{Sample: &sample})
}

// end writes the last lines of all nodes, and the totals.
func (r *Recorder) end(ctx context.Context) error {
	r.poll(ctx, true)
	if err := r.write(); err != nil {
		return err
	}
	end := recording.End{At: r.elapsed()}
	for _, n := range r.nodes {
		end.Open += n.open
	}
	if now, err := top.Observe(ctx, r.Ask); err == nil {
		end.Replicas, end.Nodes = replicasOf(now.Models), nodesOf(now.Nodes)
	}
	r.stats.Open, r.stats.Took = end.Open, time.Since(r.began)
	return r.Out.Write(recording.Line{End: &end})
}

func (r *Recorder) elapsed() float64 { return recording.Seconds(time.Since(r.began)) }

// findNodes adds the members that do not take part yet.
func (r *Recorder) findNodes(ctx context.Context) error {
	r.membered = time.Now()
	all := &messages.ListNodesResponse{}
	if err := r.Ask(ctx, "nodes.list", &messages.ListNodesRequest{}, all); err != nil {
		return err
	}
	known := make(map[string]bool)
	for _, n := range r.nodes {
		known[n.name] = true
	}
	for _, n := range all.GetNodes() {
		if name := n.GetMember().GetName(); n.GetUnreachable() == "" && !known[name] {
			r.nodes = append(r.nodes, &node{name: name, heard: time.Now()})
		}
	}
	r.stats.Nodes = len(r.nodes)
	return nil
}

func (r *Recorder) event(e *messages.Event) error {
	if strings.HasPrefix(e.GetKind(), "audit.") {
		return nil // they name clients
	}
	r.stats.Lines++
	at := recording.Seconds(max(0, e.GetTime().AsTime().Sub(r.began)))
	return r.Out.Write(recording.Line{Event: &recording.Event{
		At: at, Node: e.GetNode(), Kind: e.GetKind(), Subject: e.GetSubject(), Detail: e.GetDetail(),
	}})
}
