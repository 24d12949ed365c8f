package node

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"troupe/actors/supervise"
	"troupe/cluster/reply"
	"troupe/messages"
)

const (
	diagnoseAfter = 2 * time.Second // before the first diagnosis
	diagnoseEvery = 5 * time.Second
)

// explainWait wraps a step of the start that needs the store. While the step waits, it asks other
// nodes for the cause and logs it; an error of the step includes the cause.
func (n *Node) explainWait(step func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		var mu sync.Mutex
		var last string
		waiting, end := context.WithCancel(ctx)
		var asking sync.WaitGroup
		asking.Go(func() {
			wait := time.NewTimer(diagnoseAfter)
			defer wait.Stop()
			for {
				select {
				case <-waiting.Done():
					return
				case <-wait.C:
				}
				why := n.storeDiagnosis(waiting)
				mu.Lock()
				last = why
				mu.Unlock()
				if why != "" {
					n.cfg.Log.Warn().Str("reason", why).Msg("waiting for the store")
				}
				wait.Reset(diagnoseEvery)
			}
		})
		err := step(ctx)
		end()
		asking.Wait()
		if err != nil && last == "" {
			last = n.storeDiagnosis(context.WithoutCancel(ctx))
		}
		return withCause(err, last)
	}
}

// withCause adds a known cause to an error.
func withCause(err error, why string) error {
	if err == nil || why == "" {
		return err
	}
	return fmt.Errorf("%w; %s", err, why)
}

// storeDiagnosis asks another node why the store does not answer. It returns "" if no node knows.
func (n *Node) storeDiagnosis(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, diagnoseAfter)
	defer cancel()
	answer, err := reply.AskPeer(ctx, supervise.System, n.conn, "troupe.v1.nodes.list", nil)
	if err != nil {
		return "" // no node answers
	}
	res := &messages.ListNodesResponse{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(answer.Data, res); err != nil {
		return ""
	}
	return diagnose(res)
}

// diagnose returns the problems that may keep the store from answering, from one node's view of all
// nodes.
func diagnose(res *messages.ListNodesResponse) string {
	var all []string
	if s := res.GetStore(); s != nil && s.GetReason() != messages.Reason_REASON_NO_SPACE {
		all = append(all, s.GetDetail())
	}
	for _, n := range res.GetNodes() {
		switch d := n.GetDisk(); {
		case d.GetLow() || d.GetStopped():
			all = append(all, fmt.Sprintf("node %s: %s", n.GetMember().GetName(), d.GetDetail()))
		case n.GetUnreachable() != "" && res.GetStore() != nil:
			all = append(all, fmt.Sprintf("node %s: %s", n.GetMember().GetName(), n.GetUnreachable()))
		}
	}
	return strings.Join(all, "; ")
}
