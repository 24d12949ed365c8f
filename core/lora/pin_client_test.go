package lora

import (
	"fmt"
	"testing"
)

// asks are what the pool is told, a word each.
func asks(all []Ask) (said []string) {
	for _, a := range all {
		if a.End {
			said = append(said, "end "+a.Name)
		} else {
			said = append(said, fmt.Sprint(a.Name, " ", a.Adapter))
		}
	}
	return said
}

func TestDeskAsksOnce(t *testing.T) {
	d := NewDesk("7")
	d.Pin("r", "a")
	d.Pin("r", "a")
	d.Pin("s", "a")
	d.Pin("gone", "b")
	d.Unpin("gone") // before the pool heard of it
	expect(t, asks(d.Asks(false)), "r#7.1 a", "s#7.2 a")
	if state, _ := d.Pin("r", "a"); state != Loading || d.Users("a") != 2 || d.Users("b") != 0 {
		t.Errorf("%s; %d and %d users", state, d.Users("a"), d.Users("b"))
	}
	d.Answered("r#7.1", nil)
	if state, _ := d.Pin("r", "a"); state != Active {
		t.Errorf("pinned, it is %s", state)
	}
	if _, why := d.Pin("r", "b"); why == nil || why.Reason != Duplicate {
		t.Errorf("another adapter: %v", why)
	}
	d.Unpin("r")
	d.Unpin("r")
	expect(t, asks(d.Asks(true))) // a step may read it
	d.Pin("r", "a")
	expect(t, asks(d.Asks(true)), "r#7.4 a")
	expect(t, asks(d.Asks(false)), "end r#7.1")
	d.Answered("r#7.1", nil) // too late
	if state, _ := d.Pin("r", "a"); state != Loading {
		t.Errorf("another's answer made it %s", state)
	}
}

// TestDeskAsksAgainForRoom: when something was given back, and not before; what is refused for good is not asked for again.
func TestDeskAsksAgainForRoom(t *testing.T) {
	d := NewDesk("0")
	d.Pin("r", "a")
	d.Pin("s", "b")
	d.Pin("u", "c")
	d.Asks(false)
	d.Answered("r#0.1", refuse(NoRoom, "full"))
	d.Answered("s#0.2", refuse(Failed, "damaged"))
	d.Answered("u#0.3", nil)
	for _, request := range []string{"r", "s"} {
		if _, why := d.Pin(request, map[string]string{"r": "a", "s": "b"}[request]); why == nil {
			t.Errorf("%s: it was refused", request)
		}
	}
	expect(t, asks(d.Asks(false)))
	d.Unpin("u")
	d.Pin("r", "a")
	d.Pin("s", "b")
	expect(t, asks(d.Asks(false)), "end u#0.3", "r#0.4 a")
	d.Answered("r#0.4", refuse(NoRoom, "full"))
	d.Told("c", Where{Idle, GPU}) // what was loaded ahead of need may give way
	d.Pin("r", "a")
	expect(t, asks(d.Asks(false)), "r#0.5 a")
}

// TestDeskAndANewPool: it must hold what steps may read; what was asked for is asked for again; what was refused or had ended is not its business.
func TestDeskAndANewPool(t *testing.T) {
	d := NewDesk("0")
	for i, request := range []string{"held", "reading", "asked", "refused", "over"} {
		d.Pin(request, string(rune('a'+i)))
	}
	d.Asks(false)
	d.Answered("held#0.1", nil)
	d.Answered("reading#0.2", nil)
	d.Answered("refused#0.4", refuse(Failed, "damaged"))
	d.Told("a", Where{Active, GPU})
	d.Unpin("reading")
	d.Unpin("over")
	expect(t, asks(d.Restarted()), "held#0.1 a", "reading#0.2 b")
	expect(t, asks(d.Asks(true)), "asked#0.3 c")
	expect(t, asks(d.Asks(false)), "end reading#0.2")
	if state, _ := d.State("a"); state != Absent {
		t.Errorf("the new pool has told of nothing, and a is %s", state)
	}
	expect(t, asks(d.Restarted()), "held#0.1 a")
}
