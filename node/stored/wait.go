package stored

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/messages"
	"troupe/node/steps"
)

const (
	diagnoseAfter = 2 * time.Second // delay before the first diagnosis
	diagnoseEvery = 5 * time.Second
)

// Waiting explains why the store does not answer.
type Waiting struct {
	// Nodes returns the answer of another node to nodes.list.
	Nodes   func(ctx context.Context) (*messages.ListNodesResponse, error)
	Log     zerolog.Logger
	Runtime supervise.Runtime
}

// Explain wraps a start step that needs the store. While the step waits, it asks other nodes for
// the cause and logs it. If the step fails, its error includes the cause.
func (w Waiting) Explain(step func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		var mu sync.Mutex
		var last string
		stop := steps.Background(w.Runtime, func(waiting context.Context) {
			for wait := diagnoseAfter; ; wait = diagnoseEvery {
				select {
				case <-waiting.Done():
					return
				case <-w.Runtime.After(wait):
				}
				why := w.diagnosis(waiting)
				mu.Lock()
				last = why
				mu.Unlock()
				if why != "" {
					w.Log.Warn().Str("reason", why).Msg("waiting for the store")
				}
			}
		})
		err := step(ctx)
		stop()
		if err != nil && last == "" {
			last = w.diagnosis(context.WithoutCancel(ctx))
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

// diagnosis asks another node why the store does not answer. It returns "" if the cause is unknown.
func (w Waiting) diagnosis(ctx context.Context) string {
	ctx, cancel := w.Runtime.WithTimeout(ctx, diagnoseAfter)
	defer cancel()
	res, err := w.Nodes(ctx)
	if err != nil {
		return "" // no node answers
	}
	return diagnose(res)
}

// diagnose returns the problems that may keep the store from answering, as one node sees all nodes.
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
