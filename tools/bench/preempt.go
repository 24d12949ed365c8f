package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/encoding/protojson"

	"troupe/messages"
	"troupe/node"
	"troupe/testkit/cluster"
)

const (
	preemptRounds = 10
	preemptLoad   = 8   // sequences
	preemptTokens = 300 // of output
)

// preemption measures how long the phases of a preemption take.
func preemption() (section, error) {
	s := section{
		title: "Preemption of a replica",
		how: fmt.Sprintf("%d completions of %d tokens run over HTTP on one replica, or on two. The busiest one "+
			"is preempted with `replicas.preempt`, %d times each, and then `models.scale` brings it back. With one, "+
			"the deadline is 0 s, so that its sequences are saved to host memory at once and wait; with two, they "+
			"migrate. Medians of the phases, as the answer has them; every completion ended well. "+
			"`go run ./tools/bench -only preempt` measures this section.",
			preemptLoad, preemptTokens, preemptRounds),
	}
	for _, replicas := range []uint32{1, 2} {
		rows, err := preemptionRows(replicas)
		if err != nil {
			return s, err
		}
		s.rows = append(s.rows, rows...)
	}
	return s, nil
}

func preemptionRows(replicas uint32) ([]row, error) {
	n, stop, err := nodeWith(func(c *node.Config) {
		c.Deployments[0].Replicas, c.Tiers.DRAMBytes = new(replicas), 64<<20
	})
	if err != nil {
		return nil, err
	}
	defer stop()
	conn, err := nats.Connect(n.NATSURL())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	front := httptest.NewServer(n.Handler())
	defer front.Close()
	times := make(map[messages.PreemptionPhase][]time.Duration)
	moved := &messages.DepartureCounts{}
	for range preemptRounds {
		p, err := preemptUnderLoad(n, conn, front.URL, replicas)
		if err != nil {
			return nil, err
		}
		for _, t := range p.GetTimes() {
			times[t.GetPhase()] = append(times[t.GetPhase()], t.GetTime().AsDuration())
		}
		c := p.GetSequences()
		moved.Migrated, moved.Saved = moved.Migrated+c.GetMigrated(), moved.Saved+c.GetSaved()
		moved.Finished, moved.Requeued = moved.Finished+c.GetFinished(), moved.Requeued+c.GetRequeued()
	}
	where := "the only replica, deadline 0 s: "
	if replicas > 1 {
		where = fmt.Sprintf("1 of %d replicas: ", replicas)
	}
	var rows []row
	for phase := messages.PreemptionPhase_PREEMPTION_PHASE_FENCING; phase <= messages.
		PreemptionPhase_PREEMPTION_PHASE_FREEING; phase++ {
		if all := times[phase]; len(all) > 0 {
			slices.Sort(all)
			name := strings.ToLower(strings.TrimPrefix(phase.String(), "PREEMPTION_PHASE_"))
			rows = append(rows, row{where + name, micros(cluster.Quantile(all, 0.5)) + ", at most " +
				micros(all[len(all)-1]), "", ""})
		}
	}
	return append(rows, row{where + "sequences in all rounds", fmt.Sprintf("%d migrated, %d finished, %d requeued, "+
		"of which %d saved", moved.Migrated, moved.Finished, moved.Requeued, moved.Saved), "", ""}), nil
}

// preemptUnderLoad preempts the busiest replica while completions run, and brings it back.
func preemptUnderLoad(n *node.Node, conn *nats.Conn, url string, replicas uint32) (*messages.PreemptionStatus, error) {
	ended := make(chan error, preemptLoad)
	for i := range preemptLoad {
		body := fmt.Sprintf(`{"model":"kjv","prompt":%s,"max_tokens":%d,"ignore_eos":true,"seed":%d}`,
			strings.ReplaceAll(fmt.Sprint(prompt()), " ", ","), preemptTokens, i)
		go func() { ended <- post(url+"/v1/completions", body) }()
	}
	name, err := busiestOf(n, preemptLoad)
	if err != nil {
		return nil, err
	}
	deadline := "30s"
	if replicas == 1 {
		deadline = "0s"
	}
	m, err := conn.Request("troupe.v1.replicas.preempt",
		fmt.Appendf(nil, `{"name": %q, "deadline": %q, "force": true}`, name, deadline), time.Minute)
	if err != nil {
		return nil, err
	}
	answer := &messages.PreemptReplicaResponse{}
	if err := protojson.Unmarshal(m.Data, answer); err != nil {
		return nil, fmt.Errorf("replicas.preempt: %s: %w", m.Data, err)
	}
	m, err = conn.Request("troupe.v1.models.scale", fmt.Appendf(nil, `{"name": "kjv", "replicas": %d}`, replicas),
		standbyWait)
	if err == nil && m.Header.Get("Nats-Service-Error") != "" {
		err = fmt.Errorf("models.scale: %s", m.Data)
	}
	if err != nil {
		return nil, err
	}
	for range preemptLoad {
		err = errors.Join(err, <-ended)
	}
	if err != nil {
		return nil, err
	}
	for until := time.Now().Add(standbyWait); time.Now().Before(until); time.Sleep(time.Millisecond) {
		if d, err := n.Backend().Deployment(context.Background(), "kjv"); err == nil && ready(d) && running(d) == 0 {
			return answer.GetPreemption(), nil
		}
	}
	return nil, errors.New("the replica did not come back")
}

// busiestOf returns the replica with the most sequences once all of them run.
func busiestOf(n *node.Node, sequences uint32) (string, error) {
	for until := time.Now().Add(standbyWait); time.Now().Before(until); time.Sleep(time.Millisecond) {
		d, err := n.Backend().Deployment(context.Background(), "kjv")
		if err != nil {
			continue
		}
		if running(d) == sequences {
			return slices.MaxFunc(d.GetReplicas(), func(a, b *messages.ReplicaStatus) int {
				return cmp.Compare(a.GetRunning(), b.GetRunning())
			}).GetName(), nil
		}
	}
	return "", fmt.Errorf("%d sequences do not run at once", sequences)
}

// running returns the number of running sequences.
func running(d *messages.DeploymentStatus) (n uint32) {
	for _, r := range d.GetReplicas() {
		n += r.GetRunning()
	}
	return n
}
