package lora

import (
	"fmt"
	"testing"
)

// commandWords formats the commands as short strings.
func commandWords(all []PinCommand) (said []string) {
	for _, a := range all {
		if a.Unpin {
			said = append(said, "end "+a.Name)
		} else {
			said = append(said, fmt.Sprint(a.Name, " ", a.Adapter))
		}
	}
	return said
}

func TestPinClientSendsEachPinOnce(t *testing.T) {
	d := NewPinClient("7")
	d.Pin("r", "a")
	d.Pin("r", "a")
	d.Pin("s", "a")
	d.Pin("gone", "b")
	d.Unpin("gone") // before its pin was sent
	expect(t, commandWords(d.Drain(false)), "r#7.1 a", "s#7.2 a")
	if state, _ := d.Pin("r", "a"); state != Loading || d.Users("a") != 2 || d.Users("b") != 0 {
		t.Errorf("%s; %d and %d users", state, d.Users("a"), d.Users("b"))
	}
	d.OnPinResult("r#7.1", nil)
	if state, _ := d.Pin("r", "a"); state != Active {
		t.Errorf("state %s after the grant", state)
	}
	if _, why := d.Pin("r", "b"); why == nil || why.Reason != Duplicate {
		t.Errorf("pin of a second adapter: %v", why)
	}
	d.Unpin("r")
	d.Unpin("r")
	expect(t, commandWords(d.Drain(true))) // a step may still read it
	d.Pin("r", "a")
	expect(t, commandWords(d.Drain(true)), "r#7.4 a")
	expect(t, commandWords(d.Drain(false)), "end r#7.1")
	d.OnPinResult("r#7.1", nil) // result of the released pin
	if state, _ := d.Pin("r", "a"); state != Loading {
		t.Errorf("state %s after another pin's result", state)
	}
}

// TestPinClientRetriesNoRoomAfterRelease checks that pins refused with NoRoom are retried only
// after a release, and permanently refused ones never.
func TestPinClientRetriesNoRoomAfterRelease(t *testing.T) {
	d := NewPinClient("0")
	d.Pin("r", "a")
	d.Pin("s", "b")
	d.Pin("u", "c")
	d.Drain(false)
	d.OnPinResult("r#0.1", refuse(NoRoom, "full"))
	d.OnPinResult("s#0.2", refuse(Failed, "damaged"))
	d.OnPinResult("u#0.3", nil)
	for _, request := range []string{"r", "s"} {
		if _, why := d.Pin(request, map[string]string{"r": "a", "s": "b"}[request]); why == nil {
			t.Errorf("%s: the refusal was forgotten", request)
		}
	}
	expect(t, commandWords(d.Drain(false)))
	d.Unpin("u")
	d.Pin("r", "a")
	d.Pin("s", "b")
	expect(t, commandWords(d.Drain(false)), "end u#0.3", "r#0.4 a")
	d.OnPinResult("r#0.4", refuse(NoRoom, "full"))
	d.OnState("c", Location{Idle, GPU}) // a prefetched adapter can be evicted
	d.Pin("r", "a")
	expect(t, commandWords(d.Drain(false)), "r#0.5 a")
}

// TestPinClientIsNotWokenByRequestedPin checks that a pin refused with NoRoom is not retried because a
// pin ends that was not granted.
func TestPinClientIsNotWokenByRequestedPin(t *testing.T) {
	d := NewPinClient("0")
	d.Pin("r", "a")
	d.Pin("s", "b")
	d.Drain(false)
	d.OnPinResult("r#0.1", refuse(NoRoom, "full"))
	d.Unpin("s")
	d.Pin("r", "a")
	expect(t, commandWords(d.Drain(false)), "end s#0.2")
	d.OnState("b", Location{Idle, GPU}) // the pool had begun to load it
	d.Pin("r", "a")
	expect(t, commandWords(d.Drain(false)), "r#0.3 a")
}

// TestPinClientAfterPoolRestart checks that pins that steps may read hold from the start, that
// pending pins are sent again, and that refused or released ones are not.
func TestPinClientAfterPoolRestart(t *testing.T) {
	d := NewPinClient("0")
	for i, request := range []string{"held", "reading", "asked", "refused", "over"} {
		d.Pin(request, string(rune('a'+i)))
	}
	d.Drain(false)
	d.OnPinResult("held#0.1", nil)
	d.OnPinResult("reading#0.2", nil)
	d.OnPinResult("refused#0.4", refuse(Failed, "damaged"))
	d.OnState("a", Location{Active, GPU})
	d.Unpin("reading")
	d.Unpin("over")
	expect(t, commandWords(d.OnPoolRestart()), "held#0.1 a", "reading#0.2 b")
	expect(t, commandWords(d.Drain(true)), "asked#0.3 c")
	expect(t, commandWords(d.Drain(false)), "end reading#0.2")
	if state, _ := d.State("a"); state != Absent {
		t.Errorf("a is %s, but the new pool has reported nothing", state)
	}
	expect(t, commandWords(d.OnPoolRestart()), "held#0.1 a")
}
