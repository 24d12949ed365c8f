package lora

import (
	"fmt"
	"slices"

	"troupe/core/table"
)

// pinState is the state of a pin at a PinClient.
type pinState uint8

const (
	unpinned  pinState = iota // no pin
	requested                 // the pool has not answered
	granted                   // the adapter is on the device
	refused                   // the pool refused the pin for good
	noRoom                    // the pool refused the pin; the request may ask again when something is released
	mayRetry                  // something was released; the request asks again when it is its turn
	retried                   // asked again; the pool has not answered
	cancelled                 // the request has ended before the answer; the unpin is queued
	released                  // the request has ended; the unpin is queued, and a step may still read the adapter
)

func (s pinState) String() string {
	return [...]string{"unpinned", "requested", "granted", "refused", "no-room", "may-retry", "retried", "cancelled",
		"released"}[s]
}

// pinKind is a kind of event of a pin.
type pinKind uint8

const (
	pinAsked       pinKind = iota // a request wants the adapter
	pinAnswered                   // the pool granted or refused the pin
	pinEnded                      // the request no longer wants the adapter
	pinUnpinSent                  // the queued unpin was sent
	pinRoom                       // something was released
	pinPoolRestart                // the pool restarted, without pins
)

func (k pinKind) String() string {
	return [...]string{"asked", "answered", "ended", "unpin-sent", "room", "pool-restart"}[k]
}

type (
	pinCondition = func(*PinClient, pinEvent) bool
	pinRow       = table.Row[pinState, pinKind, pinCondition, func(*PinClient, pinEvent)]
	pinGuard     = table.Guard[pinCondition]
)

// attached are the states in which a pin belongs to its request.
var attached = []pinState{requested, granted, refused, noRoom, mayRetry, retried}

var (
	pinAlways  = pinGuard{}
	pinGranted = pinGuard{"granted", func(_ *PinClient, e pinEvent) bool { return e.refusal == nil }}
	pinNoRoom  = pinGuard{"no room", func(_ *PinClient, e pinEvent) bool { return e.refusal.Reason == NoRoom }}
	pinUnsent  = pinGuard{"not sent", (*PinClient).unsent}
)

// pinTable is the table of pins in doc.go. The first row that fits applies; other events are
// ignored.
var pinTable = table.New("adapter pin", []pinRow{
	{[]pinState{unpinned}, pinAsked, pinAlways, requested, (*PinClient).queueNew, "queue pin"},
	{[]pinState{mayRetry}, pinAsked, pinAlways, retried, (*PinClient).queueAgain, "queue a new pin"},
	{attached, pinAnswered, pinGranted, granted, (*PinClient).keepRefusal, "—"},
	{attached, pinAnswered, pinNoRoom, noRoom, (*PinClient).keepRefusal, "—"},
	{attached, pinAnswered, pinAlways, refused, (*PinClient).keepRefusal, "—"},
	{[]pinState{requested, retried}, pinEnded, pinUnsent, unpinned, (*PinClient).takeBack, "take the pin back"},
	{[]pinState{requested, retried}, pinEnded, pinAlways, cancelled, (*PinClient).queueUnpin, "queue unpin"},
	{[]pinState{granted}, pinEnded, pinAlways, released, (*PinClient).queueUnpin, "queue unpin"},
	{[]pinState{refused, noRoom, mayRetry}, pinEnded, pinAlways, unpinned, (*PinClient).nothing, "—"},
	{[]pinState{cancelled, released}, pinUnpinSent, pinAlways, unpinned, (*PinClient).nothing, "—"},
	{[]pinState{noRoom}, pinRoom, pinAlways, mayRetry, (*PinClient).nothing, "—"},
	{[]pinState{requested, retried}, pinPoolRestart, pinAlways, same, (*PinClient).queuePin, "queue pin"},
	{[]pinState{granted}, pinPoolRestart, pinAlways, same, (*PinClient).nothing, "hold"},
	{[]pinState{released}, pinPoolRestart, pinAlways, same, (*PinClient).queueUnpin, "hold; queue unpin"},
	{[]pinState{cancelled}, pinPoolRestart, pinAlways, unpinned, (*PinClient).nothing, "—"},
})

// pinEvent is one event of a pin. refusal is set if the pool refused it.
type pinEvent struct {
	kind    pinKind
	pin     *pin
	refusal *Refusal
}

// apply applies the first row that fits an event.
func (d *PinClient) apply(e pinEvent) {
	r := pinTable.Find(e.pin.state, e.kind, func(holds pinCondition) bool { return holds(d, e) })
	if r == nil {
		return
	}
	r.Do(d, e)
	if r.To != same {
		d.enter(e.pin, r.To)
	}
}

// enter changes the state of a pin. A pin that leaves its request no longer counts as a user.
func (d *PinClient) enter(p *pin, to pinState) {
	was, is := slices.Contains(attached, p.state), slices.Contains(attached, to)
	switch {
	case !was && is:
		d.pins[p.request], d.byName[p.name] = p, p
		d.users[p.adapter]++
	case was && !is:
		delete(d.pins, p.request)
		if d.users[p.adapter]--; d.users[p.adapter] == 0 {
			delete(d.users, p.adapter)
		}
	}
	if p.state = to; to == unpinned {
		delete(d.byName, p.name)
	}
}

// unsent reports whether the pin command is still queued.
func (d *PinClient) unsent(e pinEvent) bool {
	return slices.Contains(d.commands, PinCommand{Name: e.pin.name, Adapter: e.pin.adapter})
}

func (d *PinClient) nothing(pinEvent) {}

func (d *PinClient) keepRefusal(e pinEvent) { e.pin.refusal = e.refusal }

// queueNew queues a pin under a new name.
func (d *PinClient) queueNew(e pinEvent) {
	d.seq++
	e.pin.name = fmt.Sprintf("%s#%s.%d", e.pin.request, d.incarnation, d.seq)
	d.queuePin(e)
}

func (d *PinClient) queueAgain(e pinEvent) {
	delete(d.byName, e.pin.name)
	d.queueNew(e)
	d.byName[e.pin.name] = e.pin
}

func (d *PinClient) queuePin(e pinEvent) {
	d.commands = append(d.commands, PinCommand{Name: e.pin.name, Adapter: e.pin.adapter})
}

func (d *PinClient) queueUnpin(e pinEvent) {
	d.commands = append(d.commands, PinCommand{Name: e.pin.name, Adapter: e.pin.adapter, Unpin: true})
}

func (d *PinClient) takeBack(e pinEvent) {
	d.commands = slices.DeleteFunc(d.commands, func(c PinCommand) bool { return c.Name == e.pin.name })
}
