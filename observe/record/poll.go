package record

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/messages"
	"troupe/recording"
)

// poll asks all nodes at once for their lines. With end, the nodes stop recording.
func (r *Recorder) poll(ctx context.Context, end bool) {
	var asked sync.WaitGroup
	for _, n := range r.nodes {
		asked.Go(func() { n.err = r.pollNode(ctx, n, end) })
	}
	asked.Wait()
}

// pollNode asks a node until there are no more lines.
func (r *Recorder) pollNode(ctx context.Context, n *node, end bool) error {
	after := n.last
	for {
		answer := &messages.NodeRecordResponse{}
		err := r.ask(ctx, "node."+n.name+".record", &messages.NodeRecordRequest{
			Recording: r.id, Begin: !n.begun, Elapsed: durationpb.New(time.Since(r.began)), After: after, End: end,
		}, answer)
		if err != nil {
			n.begun = false // it may have been started again
			return err
		}
		n.begun, n.heard = true, time.Now()
		n.answers = append(n.answers, answer)
		if after = answer.GetLast(); !answer.GetMore() {
			return nil
		}
	}
}

// firstError returns an error if no node takes part.
func (r *Recorder) firstError() error {
	err := fmt.Errorf("the cluster has no node that answers")
	for _, n := range r.nodes {
		if n.err == nil {
			return nil
		}
		err = n.err
	}
	return err
}

// write writes the lines that have arrived, and what was lost.
func (r *Recorder) write() error {
	for _, n := range r.nodes {
		for _, a := range n.answers {
			if a.GetLast() < n.last { // it counts from the beginning again
				if err := r.lost(n, 0, "it was started again, or did not answer for long"); err != nil {
					return err
				}
				n.lost = 0
			}
			n.last = a.GetLast()
			for _, text := range a.GetLines() {
				if err := r.Out.WriteText([]byte(text)); err != nil {
					return err
				}
				r.count(text)
			}
			if new := a.GetLost() - n.lost; new > 0 {
				if err := r.lost(n, new, "they were recorded faster than they were read"); err != nil {
					return err
				}
			}
			n.lost, n.open = a.GetLost(), int(a.GetOpen())
		}
		n.answers = n.answers[:0]
		if n.err == nil {
			n.silent = false
		} else if !n.silent && time.Since(n.heard) > silentAfter {
			n.silent = true
			if err := r.lost(n, 0, "the node does not answer: "+n.err.Error()); err != nil {
				return err
			}
		}
	}
	if r.stats.Took = time.Since(r.began); r.Progress != nil {
		r.Progress(r.stats)
	}
	return nil
}

// count counts a line by its kind, with which it begins.
func (r *Recorder) count(text string) {
	r.stats.Lines++
	switch {
	case len(text) > 3 && text[2] == 'r': // {"request": …
		r.stats.Requests++
	case len(text) > 3 && text[2] == 'd':
		r.stats.Decisions++
	}
}

func (r *Recorder) lost(n *node, lines uint64, why string) error {
	r.stats.Lost += lines
	return r.Out.Write(recording.Line{Lost: &recording.Lost{At: r.elapsed(), Node: n.name, Lines: lines, Why: why}})
}
