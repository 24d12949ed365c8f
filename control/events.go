package control

import (
	"regexp"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/types/known/timestamppb"

	"troupe/actors/supervise"
	"troupe/messages"
)

// maxQueuedEvents is the number of events that can wait for NATS. Publish drops any beyond it.
const maxQueuedEvents = 1024

// Events publishes life-cycle events to troupe.v1.events.<kind>. Publish never blocks.
type Events struct {
	conn    *nats.Conn
	node    string
	rt      supervise.Runtime
	queue   chan *messages.Event
	stop    chan struct{}
	dropped atomic.Uint64
	done    sync.WaitGroup
}

// NewEvents starts a publisher in a goroutine of rt, which runs until Stop.
func NewEvents(conn *nats.Conn, node string, rt supervise.Runtime) *Events {
	e := &Events{
		conn: conn, node: node, rt: rt, queue: make(chan *messages.Event, maxQueuedEvents), stop: make(chan struct{}),
	}
	supervise.GoIn(rt, &e.done, e.publish)
	return e
}

// Publish queues an event, or drops it if the queue is full.
func (e *Events) Publish(kind, subject, detail string) {
	event := &messages.Event{
		Kind:    kind,
		Time:    timestamppb.New(e.rt.Now()),
		Subject: subject,
		Detail:  detail,
		Node:    e.node,
	}
	select {
	case e.queue <- event:
	default:
		e.dropped.Add(1)
	}
}

// Dropped returns the number of events dropped so far.
func (e *Events) Dropped() uint64 { return e.dropped.Load() }

func (e *Events) publish() {
	for {
		select {
		case event := <-e.queue:
			e.send(event)
		case <-e.stop:
			for len(e.queue) > 0 {
				e.send(<-e.queue)
			}
			return
		}
	}
}

// kindPattern matches valid event kinds. The kind is part of the subject.
var kindPattern = regexp.MustCompile(`^[a-z_]+(\.[a-z_]+)*$`)

func (e *Events) send(event *messages.Event) {
	body, err := Encode(event)
	if err != nil || !kindPattern.MatchString(event.GetKind()) ||
		e.conn.Publish("troupe.v1.events."+event.GetKind(), body) != nil {
		e.dropped.Add(1)
	}
}

// Stop publishes the queued events and ends the publisher. Events published afterwards are lost.
func (e *Events) Stop() {
	close(e.stop)
	e.done.Wait()
}
