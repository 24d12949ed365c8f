package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"troupe/internal/costfile"
	"troupe/messages"
	"troupe/observe/record"
	"troupe/recording"
)

type recordCommand struct {
	clusterClient
	File  string        `arg:"" name:"file" placeholder:"FILE" help:"File to write, such as monday.rec.gz."`
	For   time.Duration `name:"for" placeholder:"DURATION" help:"End after this time (default: with Ctrl-C)."`
	Costs []string      `name:"costs" placeholder:"FILE" help:"${recordcosts}"`
}

func (recordCommand) Help() string {
	return `Records a running cluster in a file: a snapshot of nodes, devices, deployments and replicas, and then every
request, every routing decision with what the router saw, and every event. There are no texts and no tokens in it: the
blocks of prompts are hashes with a salt, which show only that two prompts begin alike, and clients are hashes too.

A recording can be simulated and reported on; see docs/howto/record.md. What a node cannot send in time is lost, and
the file says how many lines that were. Requests that have not ended when the recording ends are not in it.

Examples:

  troupe record monday.rec.gz --for 10m
  troupe record monday.rec.gz --costs llama-on-nvidia-h200.yaml
  troupe simulate --recording monday.rec.gz
  troupe report --recording monday.rec.gz`
}

// maxEvents is the number of events that can wait to be written.
const maxEvents = 4096

// Run records until the time is up, or Ctrl-C.
func (r recordCommand) Run(c console) error {
	if r.For < 0 {
		return &usageError{errors.New("--for must be positive, such as 10m")}
	}
	profiles, err := r.profiles()
	if err != nil {
		return &usageError{err}
	}
	conn, err := r.connect("troupe record")
	if err != nil {
		return err
	}
	defer conn.Close()
	events, lost, err := subscribeEvents(conn)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(r.File, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	ctx := signalContext()
	if r.For > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.For)
		defer cancel()
	}
	w := recording.NewWriter(out)
	stats, err := (&record.Recorder{
		Ask: func(ctx context.Context, endpoint string, request, answer proto.Message) error {
			return r.request(ctx, conn, endpoint, request, answer)
		},
		Events: events, Out: w, Troupe: version(), Profiles: profiles, Progress: showRecording(c.log),
	}).Run(ctx)
	if err = errors.Join(err, w.Close(), out.Close()); err != nil {
		return fmt.Errorf("record %s: %w", r.File, err)
	}
	fmt.Fprintf(c.out, "Recorded %s of %d nodes in %s: %d requests, %d decisions, %d lines lost.\n",
		stats.Took.Round(time.Second), stats.Nodes, r.File, stats.Requests, stats.Decisions, stats.Lost)
	if n := lost.Load(); n > 0 {
		fmt.Fprintf(c.out, "%d events were lost.\n", n)
	}
	if stats.Open > 0 {
		fmt.Fprintf(c.out, "%d sequences had not ended, and are not in it.\n", stats.Open)
	}
	if permissionDenied(conn) {
		fmt.Fprintf(c.out, "The NATS server denied something: %v. Let the user subscribe to troupe.v1.events.>\n",
			conn.LastError())
	}
	return nil
}

// subscribeEvents returns the events of the cluster, and how many did not fit the channel.
func subscribeEvents(conn *nats.Conn) (<-chan *messages.Event, *atomic.Int64, error) {
	events, lost := make(chan *messages.Event, maxEvents), new(atomic.Int64)
	_, err := conn.Subscribe("troupe.v1.events.>", func(m *nats.Msg) {
		e := &messages.Event{}
		if (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(m.Data, e) != nil {
			return // of another version
		}
		select {
		case events <- e:
		default:
			lost.Add(1)
		}
	})
	if err != nil {
		return nil, nil, fmt.Errorf("events: %w", err)
	}
	return events, lost, nil
}

// profiles returns the costs that the recording is to contain.
func (r recordCommand) profiles() (all []string, err error) {
	for _, path := range r.Costs {
		if _, err := costfile.Read(path); err != nil {
			return nil, fmt.Errorf("--costs: %w", err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("--costs: %w", err)
		}
		all = append(all, string(text))
	}
	return all, nil
}

// showRecording returns a function that says that the recording has begun, and shows its progress on a terminal.
func showRecording(out io.Writer) func(record.Statistics) {
	begun, terminal := false, writesTerminal(out)
	return func(s record.Statistics) {
		if !begun {
			begun = true
			fmt.Fprintf(out, "Recording %d nodes; Ctrl-C ends it.\n", s.Nodes)
		}
		if terminal {
			fmt.Fprintf(out, "\r%s: %d requests, %d decisions, %d lines lost ", s.Took.Round(time.Second), s.Requests,
				s.Decisions, s.Lost)
		}
	}
}
